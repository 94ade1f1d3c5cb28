# The second names of the functions of shmem.h, pshmem_..., for profilers: a header that declares them, and a
# script by which the linker gives each to its function. Both from what the compiler reads in shmem.h.
#   cmake -DCOMPILER=cc -DHEADER=shmem.h -DFOLDER=to/write/into -P profiling.cmake
execute_process(COMMAND ${COMPILER} -E -P -std=c99 ${HEADER} OUTPUT_VARIABLE declarations
                COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "[ *]shmem_[A-Za-z0-9_]+ ?\\(" names "${declarations}")
list(TRANSFORM names REPLACE "[ *(]" "")
list(REMOVE_DUPLICATES names)

list(TRANSFORM names REPLACE "(.+)" "p\\1 = \\1" OUTPUT_VARIABLE script)
list(JOIN script ";\n" script)
file(WRITE ${FOLDER}/pshmem.ld "${script};\n")

list(TRANSFORM names REPLACE "(.+)" "extern __typeof__(\\1) p\\1" OUTPUT_VARIABLE header)
list(JOIN header ";\n" header)
string(CONCAT text
  "/* What a profiler calls in its own shmem_...(): the same functions by a second name, pshmem_....\n"
  " * Made from shmem.h when Towpath is built. Thread: as shmem.h. */\n"
  "#pragma once\n\n#include \"shmem.h\"\n\n"
  "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n${header};\n\n#ifdef __cplusplus\n}\n#endif\n")
file(WRITE ${FOLDER}/include/pshmem.h "${text}")
