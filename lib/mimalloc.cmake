# mimalloc, compiled into the library under its own names (mi_*).  Distributions ship it as a shared object that replaces the host's
# malloc; kvc must never do that, so the pinned source is built here without the override.
include(FetchContent)
set(KVC_MIMALLOC_SOURCE "" CACHE PATH "mimalloc source tree to use instead of downloading the pinned one")
if(KVC_MIMALLOC_SOURCE)
  set(kvc_mimalloc_source ${KVC_MIMALLOC_SOURCE})
else()
  FetchContent_Declare(kvc_mimalloc_crate
    URL https://static.crates.io/crates/libmimalloc-sys/libmimalloc-sys-0.1.43.crate
    URL_HASH SHA256=bf88cd67e9de251c1781dbe2f641a1a3ad66eaae831b8a2c38fbdc5ddae16d4d
    DOWNLOAD_NAME libmimalloc-sys-0.1.43.tar.gz
    SOURCE_SUBDIR none)
  FetchContent_MakeAvailable(kvc_mimalloc_crate)
  set(kvc_mimalloc_source ${kvc_mimalloc_crate_SOURCE_DIR}/c_src/mimalloc)
endif()
add_library(kvc_mimalloc OBJECT ${kvc_mimalloc_source}/src/static.c)
target_include_directories(kvc_mimalloc PRIVATE ${kvc_mimalloc_source}/include)
set_target_properties(kvc_mimalloc PROPERTIES C_STANDARD 11)
target_compile_options(kvc_mimalloc PRIVATE -w -ftls-model=initial-exec)
target_compile_definitions(kvc_mimalloc PRIVATE MI_STATIC_LIB=1 NDEBUG=1)
add_library(kvc_mimalloc_interface INTERFACE)
target_include_directories(kvc_mimalloc_interface SYSTEM INTERFACE ${kvc_mimalloc_source}/include)
