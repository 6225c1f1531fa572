# The commit goes into one small source file, made anew at every build, so that only that file is rebuilt.
add_custom_target(vllm_version_source
  BYPRODUCTS ${CMAKE_BINARY_DIR}/generated/version_generated.cpp
  COMMAND ${CMAKE_COMMAND} -DSOURCE_DIR=${CMAKE_SOURCE_DIR} -DVERSION=${PROJECT_VERSION}
          -DBUILD_TYPE=${CMAKE_BUILD_TYPE} -DSANITIZE=${VLLM_SANITIZE}
          -DOUTPUT=${CMAKE_BINARY_DIR}/generated/version_generated.cpp
          -P ${CMAKE_SOURCE_DIR}/cmake/WriteVersion.cmake
  COMMENT "Recording the commit")
