/* Like the library that `tickline run` maps, but linked with packed relative relocations. */

#ifndef SECTION
#define SECTION ".tickline"
#endif

extern char **environ;
/* This needs a relocation that is not packed. */
char ***variables = &environ;

static int start(void)
{
    return 0;
}

__attribute__((section(SECTION), used)) static int (*entry)(void) = start;
