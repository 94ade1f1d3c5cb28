# Compiler flags for everything in the tree, in one place.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(PROJECT_IS_TOP_LEVEL)
  # A name that is no target is refused, rather than looked for by the linker; options, as -ldl, are not names.
  set(CMAKE_LINK_LIBRARIES_ONLY_TARGETS ON)
  if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
  endif()
endif()

# In the name of a shared library whose interface is ours: until 1.0 anything may change between minor versions.
set(TOWPATH_SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})

# Paths below the tree are looked up as relative ones, and -ffile-prefix-map (below) keeps the tree's
# own place out of what is compiled: so two clones share a ccache.
find_program(TOWPATH_CCACHE ccache)
if(TOWPATH_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${towpath_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${TOWPATH_CCACHE})
endif()

# Many sources compile as one: a build from nothing takes a third of the time. What each file includes
# for itself is proven where this is off (presets dev and clang).
option(TOWPATH_UNITY "Compile the sources of a target together" OFF)
set(CMAKE_UNITY_BUILD ${TOWPATH_UNITY})
set(CMAKE_UNITY_BUILD_BATCH_SIZE 32)
if(TOWPATH_UNITY)
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:-Wno-subobject-linkage>)  # it takes what is included for a header
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # A tenth less time for a fifth more memory, of which a unit takes about 1 GiB.
    add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=1048576;--param=ggc-min-expand=400>")
  endif()
endif()

# Asked for by the presets: a user's newer compiler knows warnings that ours does not.
option(TOWPATH_WERROR "Warnings are errors" OFF)
# A failed check names its file as the tree does, wherever the tree lies.
add_compile_options(-ffile-prefix-map=${towpath_SOURCE_DIR}/=)
add_compile_options(-Wall -Wextra -Wshadow "$<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor;-Woverloaded-virtual>"
                    -Wimplicit-fallthrough)
# Aggregates leave their defaults unnamed on purpose.
add_compile_options(-Wno-missing-field-initializers)
if(TOWPATH_WERROR)
  add_compile_options(-Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  add_compile_options(-Wno-restrict)  # GCC 12 sees overlaps in std::string that are none (its bug 105651)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # libstdc++ 12's own std::stable_sort calls what newer clangs know as deprecated.
  add_compile_options(-Wno-deprecated-declarations)
  add_compile_options(-Wthread-safety -Wno-unknown-warning-option)
endif()

set(TOWPATH_SANITIZE_LINK)  # what a program needs that is linked with our libraries
if(TOWPATH_SANITIZE)
  set(TOWPATH_SANITIZE_LINK -fsanitize=${TOWPATH_SANITIZE})
  add_compile_options(-fsanitize=${TOWPATH_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  # The check of vptrs opens a pipe, and takes a process without a descriptor left for a broken object.
  add_compile_options(-fno-sanitize=vptr)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Instrumented, GCC 12 no longer sees that a std::variant's members are only read when they are set.
    add_compile_options(-Wno-maybe-uninitialized)
  else()
    # Of a library that is opened at run time we declare the functions as its ABI has them, not its header.
    add_compile_options(-fno-sanitize=function)
  endif()
endif()

# Programs that are not built here, Python for one, load the runtime of AddressSanitizer before our
# libraries; so it must be a library of its own, which is not what clang does by default.
set(TOWPATH_ASAN_RUNTIME)
if(TOWPATH_SANITIZE MATCHES "address")
  add_compile_definitions(TOWPATH_ASAN)  # g++ says __SANITIZE_ADDRESS__, clang something else
  set(runtime libasan.so)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    set(runtime libclang_rt.asan-${CMAKE_SYSTEM_PROCESSOR}.so)
  endif()
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=${runtime}
                  OUTPUT_VARIABLE TOWPATH_ASAN_RUNTIME OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
    cmake_path(GET TOWPATH_ASAN_RUNTIME PARENT_PATH folder)
    list(APPEND TOWPATH_SANITIZE_LINK -shared-libsan -Wl,-rpath,${folder})
  endif()
endif()
add_link_options(${TOWPATH_SANITIZE_LINK})
