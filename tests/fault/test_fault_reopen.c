/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A served medium grows while the Nth allocation fails, for N = 1, 2, … until none does. A failed
 * growth leaves no larger file and no leak, and the medium can grow later. One thread.
 */
#include "alloc_wrap.h"
#include "tap.h"

#include "media/media.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define ALLOCATIONS_MAX 100

static char path[] = "/tmp/weft-fault-reopen-XXXXXX";

static uint64_t file_bytes(void)
{
	struct stat st;

	return stat(path, &st) == 0 ? (uint64_t)st.st_size : UINT64_MAX;
}

static void grow(const char *before, const char *after)
{
	struct media *media, *larger = NULL;
	struct media_error error;
	unsigned n = 0;
	char small[128], large[128];

	snprintf(small, sizeof(small), "%s@file:%s,size=1M", before, path);
	snprintf(large, sizeof(large), "%s@file:%s,size=3M", after, path);
	unlink(path);
	CHECK(media_open(small, &media, &error) == 0);
	while (!larger && n < ALLOCATIONS_MAX) {
		char label[64];

		snprintf(label, sizeof(label), "allocation %u fails", ++n);
		alloc_wrap_begin(n);
		if (media_reopen(media, large, &larger, &error) < 0) {
			EXPECT_THAT(file_bytes() == 1 << 20, "%s: %lu bytes are left", label,
				    (unsigned long)file_bytes());
			EXPECT_EQ(0, alloc_wrap_end(label));
		} else {
			EXPECT(!alloc_wrap_has_failed());
			media_close(larger);
			EXPECT_EQ(0, alloc_wrap_end(label));
		}
	}
	printf("# %u allocations\n", n - 1);
	EXPECT(larger && n > 4);
	EXPECT_EQ(3 << 20, file_bytes());
	media_close(media);
	unlink(path);
}

static void failed_growth_is_taken_back(void)
{
	grow("fault:delay:ms=1", "fault:delay:ms=1");
	/* A fault medium over another one. */
	grow("fault:delay:ms=1", "fault:delay:ms=2@fault:fail:op=flush");
}

int main(void)
{
	int fd = mkstemp(path);

	CHECK(fd >= 0 && close(fd) == 0);
	TAP_RUN(failed_growth_is_taken_back);
	return tap_end();
}
