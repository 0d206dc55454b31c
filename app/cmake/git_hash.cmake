# Run at build time with -DSOURCE=... -DOUTPUT=...: writes the header only where the commit has changed, so that an unchanged
# one rebuilds nothing.
find_program(GIT git)
set(hash "")
if(GIT)
  execute_process(COMMAND ${GIT} -C ${SOURCE} describe --always --dirty --abbrev=12 --exclude=*
                  OUTPUT_VARIABLE hash OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT hash)
  set(hash unknown)
endif()
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "#define TESSERA_GIT_HASH \"${hash}\"\n")
