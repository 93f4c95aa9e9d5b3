# Sets PEERCACHE_VERSION: in a checkout from the file VERSION at its root; in a source distribution,
# which holds only this folder, from what the Python build says. Included before project().
if(DEFINED SKBUILD_PROJECT_VERSION_FULL)
  set(PEERCACHE_VERSION ${SKBUILD_PROJECT_VERSION_FULL})
else()
  file(STRINGS ${CMAKE_CURRENT_LIST_DIR}/../../VERSION PEERCACHE_VERSION LIMIT_COUNT 1)
endif()

# A Python build (pip install ./dataplane) also says for which interpreter to build the extension.
if(DEFINED SKBUILD_SOABI)
  set(PEERCACHE_PYTHON_INCLUDE ${Python_INCLUDE_DIR} CACHE PATH "")
  set(PEERCACHE_PYTHON_SOABI ${SKBUILD_SOABI} CACHE STRING "")
endif()
