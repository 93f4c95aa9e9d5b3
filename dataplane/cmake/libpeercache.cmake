# libpeercache.so.0: the C API (include/peercache/libpeercache.h) as one shared object that shows the
# functions of that header and needs nothing but the C library, so that it loads into any engine's
# process. It brings its own C++ runtime, fmt and spdlog.
#
# Debian has no static fmt and spdlog, so what it is made of is compiled again with their headers.
file(GLOB sources CONFIGURE_DEPENDS src/base/*.cc src/wire/*.cc src/client/*.cc src/capi/*.cc)
list(FILTER sources EXCLUDE REGEX "_(test|benchmark)\\.cc$")
add_library(libpeercache SHARED ${sources} python/bindings/arc4random.cc)
set_target_properties(libpeercache PROPERTIES PREFIX "" VERSION ${PROJECT_VERSION} SOVERSION 0)
# Those of the target alone: a generator expression adds those of the shared fmt and spdlog.
get_target_property(options peercache_options INTERFACE_COMPILE_OPTIONS)
get_target_property(definitions peercache_options INTERFACE_COMPILE_DEFINITIONS)
target_compile_options(libpeercache PRIVATE ${options} -ffunction-sections)
target_compile_definitions(libpeercache PRIVATE ${definitions} SPDLOG_FMT_EXTERNAL)
target_include_directories(libpeercache PUBLIC include PRIVATE src)
target_include_directories(libpeercache SYSTEM PRIVATE ${CMAKE_BINARY_DIR}/generated)
# The linker would name the shared libxxhash, also for functions that it then leaves out.
find_library(XXHASH_ARCHIVE libxxhash.a)
if(NOT XXHASH_ARCHIVE)
  set(XXHASH_ARCHIVE PkgConfig::XXHASH)
endif()
target_link_libraries(libpeercache PRIVATE fmt::fmt-header-only ${XXHASH_ARCHIVE} Threads::Threads)

# nodelete: threads of a client that was not closed outlive dlclose.
set(exports ${CMAKE_CURRENT_SOURCE_DIR}/src/capi/exports.map)
target_link_options(libpeercache PRIVATE -static-libstdc++ -static-libgcc
  LINKER:--version-script=${exports},--as-needed,--no-undefined,--gc-sections,-z,nodelete
  $<$<CONFIG:Release,RelWithDebInfo>:LINKER:--strip-debug>)
set_property(TARGET libpeercache APPEND PROPERTY LINK_DEPENDS ${exports})

install(TARGETS libpeercache LIBRARY DESTINATION lib COMPONENT capi)
install(FILES include/peercache/libpeercache.h DESTINATION include/peercache COMPONENT capi)
