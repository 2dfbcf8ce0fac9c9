/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes one mkdir of a program fail: the next one after the file $WEFT_FAIL_ONCE has appeared. The
 * failing mkdir removes the file. Loaded with LD_PRELOAD. A target creates the folders of its pools
 * for every configuration that it builds, so that one build fails and the next one succeeds.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int mkdir(const char *path, mode_t mode)
{
	int (*next)(const char *, mode_t);
	const char *sign = getenv("WEFT_FAIL_ONCE");

	if (sign && unlink(sign) == 0) {
		errno = EIO;
		return -1;
	}
	*(void **)&next = dlsym(RTLD_NEXT, "mkdir");
	return next(path, mode);
}
