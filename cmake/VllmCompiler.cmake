# How our code is compiled. `vllm_options` is linked by every target of ours; third-party headers come as SYSTEM.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

find_program(VLLM_CCACHE ccache)
if(VLLM_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      ${VLLM_CCACHE})
endif()

find_package(Threads REQUIRED)
add_library(vllm_options INTERFACE)
target_link_libraries(vllm_options INTERFACE Threads::Threads)
target_include_directories(vllm_options INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
target_compile_options(vllm_options INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wcast-qual -Wvla
                       -fno-omit-frame-pointer)
# GCC 12 sees overlapping copies in string concatenation that is inlined (its bug 105329); later ones do not.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(vllm_options INTERFACE -Wno-restrict)
endif()
if(VLLM_WERROR)
  target_compile_options(vllm_options INTERFACE -Werror)
endif()
# No fused multiply-add contraction behind our back: every ISA path states its own arithmetic.
target_compile_options(vllm_options INTERFACE -ffp-contract=off)
if(VLLM_SANITIZE)
  # Assertions are part of what a sanitizer build checks.
  target_compile_options(vllm_options INTERFACE -fsanitize=${VLLM_SANITIZE} -fno-sanitize-recover=all -O1 -g1 -UNDEBUG)
  target_link_options(vllm_options INTERFACE -fsanitize=${VLLM_SANITIZE})
endif()
if(VLLM_COVERAGE)
  target_compile_options(vllm_options INTERFACE --coverage)
  target_link_options(vllm_options INTERFACE --coverage)
endif()
