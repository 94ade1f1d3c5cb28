# See CMakeLists.txt.
function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# `answer`: what pkg-config says of the installed package.
function(ask_pkg_config answer package)
  file(GLOB_RECURSE description ${WORK}/prefix/${package}.pc)
  get_filename_component(folder ${description} DIRECTORY)
  set(ENV{PKG_CONFIG_PATH} ${folder})
  execute_process(COMMAND pkg-config ${ARGN} ${package} OUTPUT_VARIABLE said
                  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(said UNIX_COMMAND "${said}")
  set(${answer} ${said} PARENT_SCOPE)
endfunction()

# The library without CMake.
function(use_towpath)
  separate_arguments(how UNIX_COMMAND "${FLAGS}")
  ask_pkg_config(flags towpath --cflags --libs)
  run(${COMPILER} ${how} -std=c++20 ${OUTSIDE}/outside.cc -o ${WORK}/outside ${flags})
  run(${WORK}/outside)
  # What was installed needs nothing that was not. That each header compiles alone is ./dev check's business.
  file(GLOB_RECURSE headers RELATIVE ${WORK}/prefix/include ${WORK}/prefix/include/towpath/*.h)
  list(FILTER headers EXCLUDE REGEX "^towpath/(c|nixl|openshmem)/")
  list(LENGTH headers count)
  message("${count} public headers")
  if(count EQUAL 0)
    message(FATAL_ERROR "no header was installed")
  endif()
  list(TRANSFORM headers REPLACE "(.+)" "#include <\\1>\n")
  file(WRITE ${WORK}/all.cc ${headers})
  run(${COMPILER} ${how} -std=c++20 -fsyntax-only ${WORK}/all.cc ${flags})
endfunction()

# A library with an interface in C: found with pkg-config alone.
function(use_from_c package source)
  ask_pkg_config(flags ${package} --cflags --libs)
  run(${C_COMPILER} -std=c11 ${ARGN} ${OUTSIDE}/${source}.c -o ${WORK}/${source} ${flags} -ldl)
  ask_pkg_config(libraries ${package} --variable=libdir)
  run(${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${libraries} ${WORK}/${source})
endfunction()

# Until 1.0 a library is of one minor version, which its name says.
function(check_names)
  string(REGEX MATCH "^[0-9]+\\.[0-9]+" minor ${VERSION})
  foreach(name towpath towpath_c towpath_openshmem)
    file(GLOB_RECURSE found ${WORK}/prefix/lib${name}.so.${minor})
    if(NOT found)
      message(FATAL_ERROR "lib${name}.so.${minor} was not installed")
    endif()
  endforeach()
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
check_names()
run(${CMAKE_COMMAND} -S ${OUTSIDE} -B ${WORK}/build -G Ninja -D CMAKE_PREFIX_PATH=${WORK}/prefix
    -D CMAKE_CXX_COMPILER=${COMPILER} "-DCMAKE_CXX_FLAGS=${FLAGS}" -D WANTED=${VERSION})
# A package that may be left out says why it is not there.
run(${CMAKE_COMMAND} -E env PKG_CONFIG_PATH= PKG_CONFIG_LIBDIR=${WORK} ${CMAKE_COMMAND} -S ${OUTSIDE} -B ${WORK}/lacking
    -G Ninja -D CMAKE_PREFIX_PATH=${WORK}/prefix -D CMAKE_CXX_COMPILER=${COMPILER} -D LACKING=liburing)
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/outside)
run(${WORK}/build/outside_shared)
use_towpath()
use_from_c(nixl_capi outside_nixl)
use_from_c(towpath_c outside_c "-DWANTED=\"${VERSION}\"")
file(REMOVE_RECURSE ${WORK})
