# A module of the house: a static library `towpath_<name>`, its headers, its tests beside it.
#
#   towpath_module(sys
#     PUBLIC fd.h file.h           # installed, for users; they include public ones only
#     INTERNAL os_error.h          # for other modules of this tree. What is in neither list is this module's own
#     SOURCES fd.cc file.cc
#     DEPENDS core                 # modules above it
#     LIBRARIES PkgConfig::uring   # what it needs from outside, never seen in its public headers
#     TESTS fd_test.cc             # one executable per module: sys_test
#     TEST_DEPENDS ...             # further modules or libraries that only the tests need
#     LABELS unit                  # of the tests; unit by default
#     COST 1)                      # of the tests: what takes long is started first
add_custom_target(towpath_public_headers)  # each compiled alone: ./dev check --public-headers
function(towpath_module name)
  cmake_parse_arguments(arg "" "COST" "PUBLIC;INTERNAL;SOURCES;DEPENDS;LIBRARIES;TESTS;TEST_DEPENDS;LABELS" ${ARGN})
  string(REPLACE "/" "_" target ${name})
  set(library towpath_${target})
  list(TRANSFORM arg_DEPENDS REPLACE "/" "_")
  list(TRANSFORM arg_DEPENDS PREPEND towpath_)
  add_library(${library} STATIC ${arg_SOURCES})
  add_library(towpath::${target} ALIAS ${library})
  target_sources(${library} PUBLIC FILE_SET HEADERS BASE_DIRS ${towpath_SOURCE_DIR} FILES ${arg_PUBLIC})
  set_target_properties(${library} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)  # each compiles alone
  target_compile_features(${library} PUBLIC cxx_std_20)  # of those that include its headers too
  target_link_libraries(${library} PUBLIC ${arg_DEPENDS} PRIVATE ${arg_LIBRARIES})
  if(arg_PUBLIC)
    add_dependencies(towpath_public_headers ${library}_verify_interface_header_sets)
  endif()
  if(arg_INTERNAL)  # verified too, and never installed
    add_library(${library}_internal INTERFACE)
    target_sources(${library}_internal INTERFACE FILE_SET HEADERS BASE_DIRS ${towpath_SOURCE_DIR} FILES ${arg_INTERNAL})
    set_target_properties(${library}_internal PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)
    target_link_libraries(${library}_internal INTERFACE ${library} ${arg_LIBRARIES})
  endif()
  if(NOT name MATCHES "testing|conformance|tutorial")  # what users never link
    set_property(GLOBAL APPEND PROPERTY TOWPATH_MODULES ${library})
    towpath_seen_by_fuzzer(${library})
  endif()
  if(BUILD_TESTING AND arg_TESTS)
    towpath_test(${target}_test SOURCES ${arg_TESTS} DEPENDS ${library} ${arg_TEST_DEPENDS} LABELS ${arg_LABELS} COST ${arg_COST})
  endif()
endfunction()

# A GoogleTest executable, with the labels given. Each case is a ctest entry of its own (labelled `unit case`),
# for whoever chooses or repeats tests; all of them in one process are another (`unit whole`), for whoever runs
# everything: 2,300 times a program, and a store for each case that speaks to one, cost more than the cases do.
add_custom_target(towpath_units)  # programs that test modules, backends, and bytes from outside: ./dev asan --units
function(towpath_test name)
  cmake_parse_arguments(arg "" "TIMEOUT;COST" "SOURCES;DEPENDS;LABELS" ${ARGN})
  if(NOT BUILD_TESTING)
    return()
  endif()
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 300)  # sanitized, on a busy machine
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_compile_options(${name} PRIVATE -O0)  # half the time to compile; the library that is tested stays as it is
  target_link_libraries(${name} PRIVATE ${arg_DEPENDS} GTest::gmock GTest::gtest GTest::gtest_main)
  if(arg_LABELS MATCHES "^(unit|conformance)")
    add_dependencies(towpath_units ${name})
  endif()
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                       PROPERTIES LABELS "${arg_LABELS} case" TIMEOUT ${arg_TIMEOUT})
  math(EXPR timeout "4 * ${arg_TIMEOUT}")
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS} whole" TIMEOUT ${timeout} COST "${arg_COST}")
endfunction()

# What pkg-config says of an installed library, from NAME.pc.in; the folder of it all may be moved. Each folder in it may
# have been given as an absolute path. Further arguments are those of install(FILES).
function(towpath_pkg_config input)
  include(GNUInstallDirs)
  file(RELATIVE_PATH up_to_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
  file(RELATIVE_PATH libdir ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_LIBDIR})
  file(RELATIVE_PATH includedir ${CMAKE_INSTALL_PREFIX} ${CMAKE_INSTALL_FULL_INCLUDEDIR})
  get_filename_component(name ${input} NAME_WLE)
  configure_file(${input} ${CMAKE_CURRENT_BINARY_DIR}/${name} @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${name} DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig ${ARGN})
endfunction()

# In a wheel, what every program there needs of older systems, and where it finds libtowpath.so from its own folder; that
# comes first on the line, so of the static libraries after it nothing is taken.
function(towpath_in_wheel target)
  if(NOT TOWPATH_WHEEL)
    return()
  endif()
  target_sources(${target} PRIVATE ${towpath_SOURCE_DIR}/cmake/older_libstdcxx.c)
  if(ARGN)
    target_link_libraries(${target} PRIVATE towpath_shared)
    set_target_properties(${target} PROPERTIES INSTALL_RPATH ${ARGN})
  endif()
endfunction()

# Makes a shared library a door in C: Towpath is inside of it, out of sight; `map` names what is seen,
# `abi` is the number in its file's name. A wheel holds no links: there it is named as it is linked.
function(towpath_c_door target map abi)
  if(NOT TOWPATH_WHEEL)
    set_target_properties(${target} PROPERTIES SOVERSION ${abi})
  endif()
  if(TOWPATH_ABI)
    target_compile_options(${target} PRIVATE -g)
  endif()
  set_target_properties(${target} PROPERTIES LINK_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${map})
  target_link_options(${target} PRIVATE -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/${map}
                                        -Wl,--exclude-libs,ALL -Wl,--as-needed)
  # A sanitizer's own symbols are found when the program starts, in the program.
  if(NOT TOWPATH_SANITIZE)
    target_link_options(${target} PRIVATE -Wl,--no-undefined)
  endif()
endfunction()

# A measurement of bench/, built as build/PRESET/bench/<name>; `./dev bench <name>` runs it.
add_custom_target(towpath_bench_all)
function(towpath_bench name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_DEPENDS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${towpath_BINARY_DIR}/bench)
  add_dependencies(towpath_bench_all ${name})
endfunction()

# A fuzz target: sources with LLVMFuzzerTestOneInput(), seeds in tests/fuzz/corpus/<name>. The name
# ends in _fuzz. Everywhere it becomes a test that feeds it the seeds, so that what a fuzzer once found
# stays found; in the asan preset, of the same objects, also a libFuzzer executable, run by `./dev fuzz`.
add_custom_target(towpath_fuzz_all)
function(towpath_fuzz name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPENDS" ${ARGN})
  set(tried ${name}_tried)
  add_library(${tried} OBJECT ${arg_SOURCES})
  target_link_libraries(${tried} PUBLIC ${arg_DEPENDS})
  towpath_seen_by_fuzzer(${tried})
  add_executable(${name}_seeds)
  target_link_libraries(${name}_seeds PRIVATE ${tried} fuzz_seeds_main)
  add_dependencies(towpath_units ${name}_seeds)
  add_test(NAME ${name}.seeds COMMAND ${name}_seeds ${towpath_SOURCE_DIR}/tests/fuzz/corpus/${name})
  set_tests_properties(${name}.seeds PROPERTIES LABELS fuzz TIMEOUT 120)
  if(TOWPATH_FUZZ)
    add_executable(${name} EXCLUDE_FROM_ALL)
    target_link_libraries(${name} PRIVATE ${tried})
    # clang puts libFuzzer's C++ library before the shared runtime of AddressSanitizer, which insists on
    # being the first; inside of the program it is.
    target_link_options(${name} PRIVATE -static-libsan -fsanitize=fuzzer)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${towpath_BINARY_DIR}/fuzz)
    add_dependencies(towpath_fuzz_all ${name})
  endif()
endfunction()

# Marks what a fuzzer sees the ways through: the library, and what the targets have of their own.
function(towpath_seen_by_fuzzer target)
  if(TOWPATH_FUZZ)
    target_compile_options(${target} PRIVATE -fsanitize=fuzzer-no-link)
  endif()
endfunction()
