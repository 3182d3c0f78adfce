/*
 * replay: gives a fuzzer the inputs in its folder, tests/fuzz/corpus/NAME, or the files it is called with. What libFuzzer's
 * main does with a corpus, for any compiler. An input that breaks something ends the program; its name is the last line.
 */
#include <dirent.h>
#include <errno.h>
#include <limits.h>

#include "fuzz/kit/fuzz.h"

#define INPUT_MOST (16u << 20)

static void replay(const char *path)
{
    static char bytes[INPUT_MOST];
    FILE *f = fopen(path, "rb");
    FUZZ_CHECK(f, "%s: %s", path, strerror(errno));
    size_t n = fread(bytes, 1, sizeof bytes, f);
    FUZZ_CHECK(!ferror(f) && feof(f), "%s cannot be read, or is too long", path);
    fclose(f);
    printf("%s\n", path);
    fflush(stdout);
    char *copy = fuzz_copy(bytes, n);
    LLVMFuzzerTestOneInput((const uint8_t *)copy, n);
    free(copy);
}

static int is_input(const struct dirent *d)
{
    return d->d_name[0] != '.';
}

static int replay_folder(const char *dir)
{
    struct dirent **list;
    int n = scandir(dir, &list, is_input, alphasort);
    FUZZ_CHECK(n > 0, "%s: %s", dir, n < 0 ? strerror(errno) : "there is nothing in it");
    for (int i = 0; i < n; i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s/%s", dir, list[i]->d_name);
        replay(path);
        free(list[i]);
    }
    free(list);
    return n;
}

int main(int argc, char **argv)
{
    const char *slash = strrchr(argv[0], '/'), *name = strstr(slash ? slash : argv[0], "fuzz_");
    char dir[PATH_MAX];
    int n = argc - 1;
    FUZZ_CHECK(name, "a fuzzer is called fuzz_NAME, not %s", argv[0]);
    snprintf(dir, sizeof dir, "tests/fuzz/corpus/%s", name + strlen("fuzz_"));
    for (int i = 1; i < argc; i++)
        replay(argv[i]);
    if (!n)
        n = replay_folder(dir);
    printf("%d passed, 0 failed\n", n);
    return 0;
}
