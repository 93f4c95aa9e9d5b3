# peercache_module(NAME [DEPENDENCY...] [SUBDIRS DIR...] [LIBRARIES TARGET...] [TESTS NAME DIRS...])
#
# Makes library peercache_NAME of src/NAME/*.cc and, with PEERCACHE_TESTS, the test NAME_test of
# src/NAME/*_test.cc; tests that need RDMA devices are X_fabric_test.cc and become NAME_fabric_test, part
# of the target fabric_tests, which no ctest runs. Tests of the folders DIRS, a regular expression, become
# NAME_TESTS_test instead: whoever edits one of them links few others. Each src/NAME/X_benchmark.cc becomes program X_benchmark, built only when asked for.
include(cmake/test_groups.cmake)
if(PEERCACHE_TESTS)
  enable_testing()
  include(GoogleTest)
  add_custom_target(unit_tests)  # all that ctest runs
  # Where tests find their files. It is one source of its own, so that ccache has all others for every checkout.
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/test_sources.cc @ONLY CONTENT
    "namespace peercache::testing {
extern const char kTestSources[];
const char kTestSources[] = \"@CMAKE_SOURCE_DIR@/src\";
}
")
  add_library(peercache_test_sources STATIC EXCLUDE_FROM_ALL ${CMAKE_BINARY_DIR}/generated/test_sources.cc)
  target_link_libraries(peercache_test_sources PRIVATE peercache_options)
endif()
if(PEERCACHE_TESTS OR PEERCACHE_FABRIC_TESTS)
  find_package(GTest REQUIRED)
  add_custom_target(fabric_tests)
endif()

# The test BINARY of the module NAME, of these files.
function(peercache_test binary name)
  peercache_test_groups(groups ${ARGN})
  add_executable(${binary} ${groups})
  target_link_libraries(${binary} PRIVATE peercache_${name} peercache_test_sources GTest::gmock GTest::gtest_main)
  set_target_properties(${binary} PROPERTIES UNITY_BUILD OFF)
  if(PEERCACHE_SANITIZER MATCHES "undefined|thread" AND NOT name MATCHES "^(base|pool|directory)$")
    # They wait more than they compute, and take GCC twice as long when it optimizes them: 415 s
    # of processor time with ASan.
    target_compile_options(${binary} PRIVATE -O0)
  endif()
  add_dependencies(unit_tests ${binary})
  gtest_discover_tests(${binary} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 600)
endfunction()

function(peercache_module name)
  cmake_parse_arguments(PARSE_ARGV 1 M "" "" "SUBDIRS;LIBRARIES;TESTS")
  set(patterns src/${name}/*.cc)
  foreach(dir ${M_SUBDIRS})
    list(APPEND patterns src/${name}/${dir}/*.cc)
  endforeach()
  file(GLOB sources CONFIGURE_DEPENDS RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} ${patterns})
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  set(fabric_tests ${tests})
  list(FILTER tests EXCLUDE REGEX "_fabric_test\\.cc$")
  if(PEERCACHE_SANITIZER MATCHES "thread")
    # Simulations have one thread, as their tests assert (base/one_thread_testing.h).
    list(FILTER tests EXCLUDE REGEX "_simulation_([a-z]+_)?test\\.cc$")
  endif()
  list(FILTER fabric_tests INCLUDE REGEX "_fabric_test\\.cc$")
  set(benchmarks ${sources})
  list(FILTER benchmarks INCLUDE REGEX "_benchmark\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_(test|benchmark)\\.cc$")
  list(TRANSFORM M_UNPARSED_ARGUMENTS PREPEND peercache_)
  if(sources)
    add_library(peercache_${name} STATIC ${sources})
    set(scope PUBLIC)
  else()
    add_library(peercache_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_link_libraries(peercache_${name} ${scope} peercache_options ${M_UNPARSED_ARGUMENTS}
    ${M_LIBRARIES})
  foreach(file ${benchmarks})
    cmake_path(GET file STEM program)
    add_executable(${program} EXCLUDE_FROM_ALL ${file})
    target_link_libraries(${program} PRIVATE peercache_${name})
  endforeach()
  if(PEERCACHE_TESTS AND tests)
    while(M_TESTS)
      list(POP_FRONT M_TESTS part dirs)
      set(of_part ${tests})
      list(FILTER of_part INCLUDE REGEX "^src/${name}/(${dirs})/")
      list(FILTER tests EXCLUDE REGEX "^src/${name}/(${dirs})/")
      peercache_test(${name}_${part}_test ${name} ${of_part})
    endwhile()
    if(tests)
      peercache_test(${name}_test ${name} ${tests})
    endif()
  endif()
  if(TARGET fabric_tests AND fabric_tests)
    add_executable(${name}_fabric_test EXCLUDE_FROM_ALL ${fabric_tests})
    target_link_libraries(${name}_fabric_test PRIVATE peercache_${name} GTest::gmock GTest::gtest_main)
    set_target_properties(${name}_fabric_test PROPERTIES UNITY_BUILD OFF)
    add_dependencies(fabric_tests ${name}_fabric_test)
  endif()
endfunction()
