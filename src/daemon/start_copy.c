/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copy of the state store that --reset keeps: STATE/weft.db.reset-GENERATION, a whole store
 * with reservations, counters and history. Moved back to STATE/weft.db while no target runs, the
 * copy is the state again. The last START_COPIES_MAX are kept: a target that resets at every start
 * must not fill the disk.
 *
 * Main thread, before the reactors run.
 */
#include "base/log.h"
#include "base/text.h"
#include "daemon/start.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define START_COPIES_MAX 8
#define COPY_PREFIX      STORE_FILE ".reset-"

/* The generation of a copy; 0: the name is not that of a copy. */
static uint64_t copy_generation(const char *name)
{
	uint64_t generation = 0;

	if (strncmp(name, COPY_PREFIX, strlen(COPY_PREFIX)) != 0 ||
	    text_parse_u64(name + strlen(COPY_PREFIX), INT64_MAX, &generation) < 0)
		return 0;
	return generation;
}

/* Returns the number of copies, and the generation of the oldest. */
static unsigned copies_count(DIR *dir, uint64_t *ret_oldest)
{
	struct dirent *entry;
	unsigned count = 0;

	*ret_oldest = UINT64_MAX;
	rewinddir(dir);
	while ((entry = readdir(dir)) != NULL) {
		uint64_t generation = copy_generation(entry->d_name);

		count += generation > 0;
		if (generation > 0 && generation < *ret_oldest)
			*ret_oldest = generation;
	}
	return count;
}

static void copies_trim(const char *state_dir)
{
	DIR *dir = opendir(state_dir);
	uint64_t oldest;
	char name[64];

	while (dir && copies_count(dir, &oldest) > START_COPIES_MAX) {
		snprintf(name, sizeof(name), COPY_PREFIX "%llu", (unsigned long long)oldest);
		log_info("control", "removing %s/%s: newer copies of the state are kept", state_dir,
			 name);
		if (unlinkat(dirfd(dir), name, 0) < 0) {
			log_warn("control", "cannot remove %s/%s: %s", state_dir, name,
				 strerror(errno));
			break;
		}
	}
	if (dir)
		closedir(dir);
}

int start_copy(struct store *store, const char *state_dir)
{
	unsigned long long generation = store_generation(store);
	struct store_error error;
	char *path;
	int res;

	if (asprintf(&path, "%s/" COPY_PREFIX "%llu", state_dir, generation) < 0)
		return -ENOMEM;
	res = store_copy(store, path, &error);
	if (res < 0)
		log_error("control", "--reset cannot keep a copy of the saved state: %s",
			  error.text);
	else
		log_warn("control",
			 "--reset: the saved state, generation %llu, is kept in %s; `weft ctl "
			 "rollback %llu` returns to it",
			 generation, path, generation);
	free(path);
	if (res == 0)
		copies_trim(state_dir);
	return res;
}
