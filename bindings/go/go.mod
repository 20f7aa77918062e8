module kvc

go 1.24
