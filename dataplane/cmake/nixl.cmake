# libplugin_PEERCACHE.so: NIXL's backend over libpeercache.so.0, which it finds in its own folder. The
# agent that loads it has a C++ runtime, with which it shares objects: it brings none of its own.
add_library(plugin_PEERCACHE MODULE $<TARGET_OBJECTS:peercache_nixl>)
set_target_properties(plugin_PEERCACHE PROPERTIES LINKER_LANGUAGE CXX
  BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN:$ORIGIN/..")
target_link_libraries(plugin_PEERCACHE PRIVATE libpeercache)
set(exports ${CMAKE_CURRENT_SOURCE_DIR}/src/nixl/exports.map)
target_link_options(plugin_PEERCACHE PRIVATE
  LINKER:--version-script=${exports},--as-needed,--no-undefined
  $<$<CONFIG:Release,RelWithDebInfo>:LINKER:--strip-debug>)
set_property(TARGET plugin_PEERCACHE APPEND PROPERTY LINK_DEPENDS ${exports})

install(TARGETS plugin_PEERCACHE LIBRARY DESTINATION lib/peercache-nixl COMPONENT capi)
