package kvc

import (
	"fmt"

	"kvc/internal/raw"
)

// Version is that of the library that is loaded, as "0.1.0".
func Version() string { return versionText(raw.Kvc_version()) }

// Features is what this build of the library can do.
func Features() Feature { return Feature(raw.Kvc_features()) }

func versionText(version uint32) string {
	return fmt.Sprintf("%d.%d.%d", version>>16, version>>8&255, version&255)
}
