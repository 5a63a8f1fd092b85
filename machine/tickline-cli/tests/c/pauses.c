/* A program that does nothing until a signal ends it. */

#include <unistd.h>

int main(void)
{
    pause();
    return 0;
}
