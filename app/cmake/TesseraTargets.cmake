# Compile options shared by every target, and helpers that declare libraries and tests in one line.
add_library(tessera_options INTERFACE)
add_library(tessera::options ALIAS tessera_options)
set_target_properties(tessera_options PROPERTIES EXPORT_NAME options)
target_compile_options(tessera_options INTERFACE $<BUILD_INTERFACE:-Wall -Wextra -Wpedantic -Wshadow=local
                       # A false alarm of g++ 12 about operator+(const char*, std::string&&).
                       $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>>)
if(TESSERA_WERROR)
  target_compile_options(tessera_options INTERFACE $<BUILD_INTERFACE:-Werror>)
endif()
if(TESSERA_NATIVE)
  target_compile_options(tessera_options INTERFACE $<BUILD_INTERFACE:-march=native>)
endif()

# tessera_library(name SOURCES... ) : static library tessera::<name> with the repository root on its include path.
function(tessera_library name)
  add_library(tessera_${name} STATIC ${ARGN})
  add_library(tessera::${name} ALIAS tessera_${name})
  set_target_properties(tessera_${name} PROPERTIES EXPORT_NAME ${name})
  target_include_directories(tessera_${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                                    $<INSTALL_INTERFACE:include/tessera>)
  target_compile_features(tessera_${name} PUBLIC cxx_std_20)
  target_link_libraries(tessera_${name} PUBLIC tessera::options)
endfunction()

# The environment in which MPI programs run as root and with more ranks than cores.
set(TESSERA_MPI_ENVIRONMENT
    "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;OMPI_MCA_rmaps_base_oversubscribe=1;OMPI_MCA_hwloc_base_binding_policy=none;OMP_NUM_THREADS=1;ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1"
)

# tessera_test(name LABELS <labels> [RANKS 1 2 3 4] SOURCES ... LIBRARIES ...) : a GoogleTest program. With RANKS it is launched
# once per rank count, and one launch runs all of its cases.
function(tessera_test name)
  cmake_parse_arguments(T "" "TIMEOUT" "LABELS;RANKS;SOURCES;LIBRARIES" ${ARGN})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 300)
  endif()
  add_executable(${name} ${T_SOURCES})
  target_link_libraries(${name} PRIVATE tessera::test_main ${T_LIBRARIES})
  if(NOT T_RANKS)
    set(T_RANKS 1)
  endif()
  foreach(ranks IN LISTS T_RANKS)
    add_test(NAME ${name}.np${ranks} COMMAND ${MPIEXEC_EXECUTABLE} ${MPIEXEC_NUMPROC_FLAG} ${ranks} $<TARGET_FILE:${name}>)
    set_tests_properties(${name}.np${ranks} PROPERTIES LABELS "${T_LABELS}" ENVIRONMENT "${TESSERA_MPI_ENVIRONMENT}"
                         TIMEOUT ${T_TIMEOUT} PROCESSORS 2)
  endforeach()
endfunction()
