module examples

go 1.24

require kvc v0.0.0

replace kvc => ../bindings/go
