# Makes the box kernel, `kernel`, for NVIDIA's GPUs out of its source, where there is a clang that can: no toolkit of
# CUDA's is needed. The oldest GPU that takes it is Volta (7.0); the driver compiles it for newer ones.
find_program(TOWPATH_PTX_CLANG NAMES clang++-19 clang++-18 clang++-17 clang++-16 clang++
             DOC "A clang that makes kernels for NVIDIA's GPUs")
set(TOWPATH_BOX_KERNEL_PTX "")
if(TOWPATH_PTX_CLANG)
  execute_process(
    COMMAND ${TOWPATH_PTX_CLANG} --target=nvptx64-nvidia-cuda -march=sm_70 -Xclang -target-feature -Xclang +ptx60
            -std=c++20 -O3 -Wall -Wextra -Werror -ffreestanding -I${towpath_SOURCE_DIR} -S -o - ${kernel}
    OUTPUT_VARIABLE TOWPATH_BOX_KERNEL_PTX ERROR_VARIABLE refusal RESULT_VARIABLE failed)
  if(failed)
    message(STATUS "${TOWPATH_PTX_CLANG} makes no kernels for GPUs: ${refusal}")
    set(TOWPATH_BOX_KERNEL_PTX "")
  endif()
else()
  message(STATUS "No clang of 16 or newer: kernels for GPUs are not built, copies go without them")
endif()
configure_file(${CMAKE_CURRENT_LIST_DIR}/box_kernel_ptx.cc.in ${CMAKE_CURRENT_BINARY_DIR}/box_kernel_ptx.cc @ONLY)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${kernel} ${CMAKE_CURRENT_LIST_DIR}/box_kernel.h)
