# See CMakeLists.txt.
function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# The C interface of NIXL's crate: found with pkg-config alone, and loaded by its name.
function(use_nixl_capi)
  file(GLOB_RECURSE description ${WORK}/prefix/nixl_capi.pc)
  get_filename_component(folder ${description} DIRECTORY)
  set(ENV{PKG_CONFIG_PATH} ${folder})
  execute_process(COMMAND pkg-config --cflags --libs nixl_capi OUTPUT_VARIABLE flags
                  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  run(${C_COMPILER} -std=c11 ${OUTSIDE}/outside_nixl.c -o ${WORK}/outside_nixl ${flags} -ldl)
  execute_process(COMMAND pkg-config --variable=libdir nixl_capi OUTPUT_VARIABLE libraries
                  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  run(${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${libraries} ${WORK}/outside_nixl)
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
run(${CMAKE_COMMAND} -S ${OUTSIDE} -B ${WORK}/build -G Ninja -D CMAKE_PREFIX_PATH=${WORK}/prefix
    -D CMAKE_CXX_COMPILER=${COMPILER} "-DCMAKE_CXX_FLAGS=${FLAGS}" -D WANTED=${VERSION})
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/outside)
use_nixl_capi()
file(REMOVE_RECURSE ${WORK})
