/* A library that `tickline run` might map, linked with relative relocations that are packed. */

extern char **environ;
/* A relocation that is not packed. */
char ***variables = &environ;

static int start(void)
{
    return 0;
}

__attribute__((section(".tickline"), used)) static int (*entry)(void) = start;
