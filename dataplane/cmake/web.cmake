# peercache_web(TARGET FOLDER FILE...): the dashboard's files become a source of TARGET, which is
# node/report/web_files.h's. The first one is the page, at /.
function(peercache_web target folder)
  set(entries "")
  set(path "")  # of the page
  foreach(file ${ARGN})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${folder}/${file})
    file(READ ${folder}/${file} content)
    cmake_path(GET file EXTENSION extension)
    if(extension STREQUAL ".html")
      set(type "text/html; charset=utf-8")
    elseif(extension STREQUAL ".css")
      set(type "text/css; charset=utf-8")
    elseif(extension STREQUAL ".js")
      set(type "text/javascript; charset=utf-8")
    elseif(extension STREQUAL ".svg")
      set(type "image/svg+xml")
    else()
      message(FATAL_ERROR "${file}: cmake/web.cmake knows no type for ${extension}: add it there")
    endif()
    string(APPEND entries "    {\"/${path}\", \"${type}\", R\"-web-(${content})-web-\"},\n")
    list(POP_FRONT ARGN)
    if(ARGN)
      list(GET ARGN 0 path)
    endif()
  endforeach()
  set(output ${CMAKE_BINARY_DIR}/generated/web_files.cc)
  file(CONFIGURE OUTPUT ${output} @ONLY CONTENT [[
// Made by cmake/web.cmake.
#include "node/report/web_files.h"

namespace peercache {
namespace {

constexpr WebFile kFiles[] = {
@entries@};

}  // namespace

std::span<const WebFile> WebFiles() { return kFiles; }

}  // namespace peercache
]])
  target_sources(${target} PRIVATE ${output})
endfunction()
