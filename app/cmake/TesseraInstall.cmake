include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS tessera_options tessera_parallel tessera_io tessera_solver EXPORT tesseraTargets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(TARGETS tessera RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
foreach(folder parallel io solver)
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder} DESTINATION include/tessera FILES_MATCHING PATTERN "*.hpp")
endforeach()
install(EXPORT tesseraTargets NAMESPACE tessera:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tessera)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/tesseraConfig.cmake.in ${CMAKE_BINARY_DIR}/tesseraConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tessera)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/tesseraConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/tesseraConfig.cmake ${CMAKE_BINARY_DIR}/tesseraConfigVersion.cmake
              ${CMAKE_CURRENT_LIST_DIR}/TesseraDependencies.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tessera)
