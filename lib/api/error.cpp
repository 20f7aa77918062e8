#include "kvc/error.h"

#include "api/shim.h"

using namespace kvc;

const char *kvc_status_name(kvc_status status) { return base::status_name(status); }

uint32_t kvc_version(void) { return KVC_VERSION_MAJOR << 16 | KVC_VERSION_MINOR << 8 | KVC_VERSION_PATCH; }

uint64_t kvc_features(void) { return 0; }
