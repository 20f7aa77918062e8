# mimalloc, compiled into the library under its own names (mi_*).  Distributions ship it as a shared object that replaces the host's
# malloc; kvc must never do that, so the pinned source is built here without the override.
include(FetchContent)
set(KVC_MIMALLOC_SOURCE "" CACHE PATH "mimalloc source tree to use instead of downloading the pinned one")
if(NOT KVC_MIMALLOC_SOURCE AND EXISTS ${PROJECT_SOURCE_DIR}/mimalloc/src/static.c) # a source tarball brings it
  set(KVC_MIMALLOC_SOURCE ${PROJECT_SOURCE_DIR}/mimalloc)
endif()
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
add_library(kvc_mimalloc_all OBJECT ${kvc_mimalloc_source}/src/static.c)
target_include_directories(kvc_mimalloc_all PRIVATE ${kvc_mimalloc_source}/include)
set_target_properties(kvc_mimalloc_all PROPERTIES C_STANDARD 11)
target_compile_options(kvc_mimalloc_all PRIVATE -w -ftls-model=initial-exec)
target_compile_definitions(kvc_mimalloc_all PRIVATE MI_STATIC_LIB=1 MI_NO_GETENV=1 NDEBUG=1)

# A host of the static library may link a mimalloc of its own: everything but the two functions used stays inside this object, and those
# get a prefix (lib/memory/resource.cpp calls them by it).
set(kvc_mimalloc_object ${CMAKE_CURRENT_BINARY_DIR}/kvc_mimalloc.o)
add_custom_command(OUTPUT ${kvc_mimalloc_object}
  COMMAND ${CMAKE_OBJCOPY} --redefine-sym mi_malloc_aligned=kvc_mi_malloc_aligned --redefine-sym mi_free_size_aligned=kvc_mi_free_size_aligned
          $<TARGET_OBJECTS:kvc_mimalloc_all> ${kvc_mimalloc_object}.renamed
  COMMAND ${CMAKE_OBJCOPY} --keep-global-symbol=kvc_mi_malloc_aligned --keep-global-symbol=kvc_mi_free_size_aligned
          ${kvc_mimalloc_object}.renamed ${kvc_mimalloc_object}
  DEPENDS kvc_mimalloc_all $<TARGET_OBJECTS:kvc_mimalloc_all>
  COMMENT "Hiding mimalloc's symbols" VERBATIM)
set_source_files_properties(${kvc_mimalloc_object} PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
