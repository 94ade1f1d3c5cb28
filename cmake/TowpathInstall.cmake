# `cmake --install`: libraries, public headers, and a package that find_package(towpath) finds, and
# pkg-config too. tests/install builds a project outside the tree against it, either way.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

get_property(modules GLOBAL PROPERTY TOWPATH_MODULES)
foreach(module ${modules})
  string(REGEX REPLACE "^towpath_" "" exported ${module})
  set_target_properties(${module} PROPERTIES EXPORT_NAME ${exported})
endforeach()
install(TARGETS ${modules} towpath EXPORT towpath FILE_SET HEADERS)
if(TARGET towpath_shared)
  install(TARGETS towpath_shared EXPORT towpath LIBRARY COMPONENT shared NAMELINK_COMPONENT Unspecified)
endif()

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/towpath)
install(EXPORT towpath FILE towpath-targets.cmake NAMESPACE towpath:: DESTINATION ${package})
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/towpath-config.cmake.in
                              ${towpath_BINARY_DIR}/towpath-config.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(${towpath_BINARY_DIR}/towpath-config-version.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${towpath_BINARY_DIR}/towpath-config.cmake
              ${towpath_BINARY_DIR}/towpath-config-version.cmake DESTINATION ${package})

# The libraries are static: whoever links them needs what they need, so all of it is said in public,
# and those come first that use the others.
set(libraries ${modules})
list(REVERSE libraries)
list(TRANSFORM libraries PREPEND -l)
list(JOIN libraries " " libraries)
set(required "liburing libxxhash libcurl libssl libcrypto")
if(TOWPATH_PROMETHEUS)
  string(APPEND required " prometheus-cpp-pull")
endif()
towpath_pkg_config(${CMAKE_CURRENT_LIST_DIR}/towpath.pc.in)
if(TARGET towpath_shared)
  towpath_pkg_config(${CMAKE_CURRENT_LIST_DIR}/towpath_shared.pc.in)
endif()
