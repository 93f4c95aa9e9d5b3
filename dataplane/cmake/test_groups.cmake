# peercache_test_groups(OUT FILE...)
#
# In a unity build OUT is one generated source for every eight tests, which takes a third of the time;
# otherwise OUT is the tests. Unity builds of CMake cannot do it: tests give their constants and fixtures
# short names, each file its own. So each file gets a namespace around all of it, in which its former
# namespaces are looked into: test_1::peercache::disk finds what ::peercache::disk has. Headers are read
# before, outside of them, and not again.
#
# A file that defines members of a class of some header cannot be moved so; it says NOT-IN-A-GROUP.

# Writes to OUT the directives by which the names of a test's file are looked for in the namespaces of CHAIN, and
# in gtest's.
function(peercache_test_namespaces out chain)
  set(open "")
  set(close "")
  set(path "")
  set(looks "using namespace ::testing; using ::peercache::testing::TempDir;")  # gtest has a TempDir, too
  foreach(name ${chain})
    string(APPEND path "::${name}")
    string(APPEND looks " using namespace ${path}::testing;")
    string(APPEND open "namespace ${name} { using namespace ${path}; namespace testing { ${looks} }\n")
    string(APPEND close "}")
  endforeach()
  set(${out} "${open}${close}\n" PARENT_SCOPE)
endfunction()

function(peercache_test_groups out)
  if(NOT CMAKE_UNITY_BUILD)
    set(${out} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  set(sources "")
  set(count 0)
  foreach(file ${ARGN})
    file(REAL_PATH ${file} path BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
    file(STRINGS ${path} alone REGEX "NOT-IN-A-GROUP")
    if(alone)
      list(APPEND sources ${file})
      continue()
    endif()
    # Names within src: what ccache has of another checkout then serves this one.
    file(RELATIVE_PATH header ${CMAKE_SOURCE_DIR}/src ${path})
    math(EXPR full "${count} % 8")
    if(full EQUAL 0)
      string(REPLACE "/" "_" name ${header})
      set(group ${CMAKE_CURRENT_BINARY_DIR}/test_groups/from_${name})
      list(APPEND sources ${group})
      set(headers_${group} "#include \"base/temp_dir_testing.h\"\n")
      set(bodies_${group} "")
    endif()
    math(EXPR count "${count} + 1")
    file(STRINGS ${path} headers REGEX "^#include")
    file(STRINGS ${path} spaces REGEX "^namespace peercache")
    list(GET spaces 0 space)
    string(REGEX REPLACE "^namespace ([a-z_:]+).*" "\\1" space "${space}")
    string(REPLACE "::" ";" chain "${space}")
    peercache_test_namespaces(namespaces "${chain}")
    list(JOIN headers "\n" headers)
    string(APPEND headers_${group} "${headers}\n")
    string(APPEND bodies_${group} "namespace ${space}::testing {}\n"
      "namespace test_${count} {\n${namespaces}#include \"${header}\"\n}\n")
  endforeach()
  foreach(source ${sources})
    if(DEFINED headers_${source})
      file(CONFIGURE OUTPUT ${source} CONTENT "${headers_${source}}${bodies_${source}}" @ONLY)
    endif()
  endforeach()
  set(${out} ${sources} PARENT_SCOPE)
endfunction()
