# Configures the tree as few do: without the command, into folders that are given as absolute paths. What is linked and is
# no target ends the configuration; what is said of the installed libraries must name those folders.
set(lib ${WORK}/prefix/lib64)
set(include /opt/towpath-headers)  # not below the prefix; CMake refuses it among the sources. Nothing is written there.
set(bin ${WORK}/prefix/tools/bin)
file(REMOVE_RECURSE ${WORK})
execute_process(COMMAND ${CMAKE_COMMAND} -S ${TREE} -B ${WORK}/build -G Ninja -D TOWPATH_TOOLS=OFF -D TOWPATH_PYTHON=OFF
                        -D CMAKE_CXX_COMPILER=${COMPILER} -D CMAKE_C_COMPILER=${C_COMPILER}
                        -D CMAKE_INSTALL_PREFIX=${WORK}/prefix -D CMAKE_INSTALL_LIBDIR=${lib}
                        -D CMAKE_INSTALL_INCLUDEDIR=${include} -D CMAKE_INSTALL_BINDIR=${bin}
                COMMAND_ERROR_IS_FATAL ANY)

# Fails unless the option that begins with `letter` (-I, -L) names the folder; not all of it need be there.
function(must_name folder letter said)
  string(REGEX MATCH "(^| )${letter}([^ \n]+)" found "${said}")
  cmake_path(SET named NORMALIZE "${CMAKE_MATCH_2}")
  if(NOT named STREQUAL folder)
    message(FATAL_ERROR "${letter} is ${named}, not ${folder}: ${said}")
  endif()
endfunction()

file(GLOB_RECURSE descriptions ${WORK}/build/*.pc)
file(COPY ${descriptions} DESTINATION ${lib}/pkgconfig)
set(ENV{PKG_CONFIG_PATH} ${lib}/pkgconfig)
foreach(package towpath towpath_shared towpath_c:/c nixl_capi:/nixl towpath_openshmem:/openshmem)
  string(REPLACE ":" ";" package ${package})
  list(POP_FRONT package name)
  execute_process(COMMAND pkg-config --cflags --libs ${name} OUTPUT_VARIABLE said COMMAND_ERROR_IS_FATAL ANY)
  if(package)
    must_name(${include}/towpath${package} -I "${said}")
  else()
    must_name(${include} -I "${said}")
  endif()
  must_name(${lib} -L "${said}")
endforeach()

file(COPY ${WORK}/build/bindings/openshmem/installed/towpath-shmcc DESTINATION ${bin})
execute_process(COMMAND ${bin}/towpath-shmcc --show OUTPUT_VARIABLE said COMMAND_ERROR_IS_FATAL ANY)
must_name(${include}/towpath/openshmem -I "${said}")
must_name(${lib} -L "${said}")
file(REMOVE_RECURSE ${WORK})
