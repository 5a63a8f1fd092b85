/* A program that does nothing until a signal ends it. It ends by itself if its test does not. */

#include <unistd.h>

int main(void)
{
    alarm(150);
    pause();
    return 0;
}
