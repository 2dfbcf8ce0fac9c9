/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state folder: weft.lock, locked by flock(2) while the daemon runs and naming its process, and
 * weft.db, the store (store/store.h). The store also has the number of starts and of unsafe
 * shutdowns, and whether the last end was clean. A start marks the state as not clean. Only an
 * orderly end marks it clean again, so a kill or a power cut is counted.
 *
 * Versions before the store kept the counters in state.json, which is read once, when the store is
 * created. Control thread only.
 */
#include "daemon/state.h"

#include "base/log.h"
#include "base/text.h"
#include "config/json_whole.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define STATE_OLD_FILE     "state.json"
#define STATE_OLD_IMPORTED "state.json.imported"
#define STATE_OLD_DAMAGED  "state.json.damaged"
#define STATE_OLD_VERSION  1
#define STATE_LOCK         "weft.lock"

__attribute__((format(printf, 3, 4))) static int state_fail(struct state_error *error, int res,
							    const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(error->text, sizeof(error->text), format, args);
	va_end(args);
	return res;
}

int state_default_dir(char *ret_dir, size_t dir_bytes)
{
	const char *base = getenv("XDG_STATE_HOME");
	const char *home = getenv("HOME");
	int len;

	if (geteuid() == 0)
		len = snprintf(ret_dir, dir_bytes, "/var/lib/weft");
	else if (base && base[0] == '/')
		len = snprintf(ret_dir, dir_bytes, "%s/weft", base);
	else if (home && home[0] == '/')
		len = snprintf(ret_dir, dir_bytes, "%s/.local/state/weft", home);
	else
		return -ENOENT;
	return (size_t)len < dir_bytes ? 0 : -ENAMETOOLONG;
}

/* As mkdir -p: missing parents are created with access for all, the folder for this user only. */
static int dir_make(const char *dir)
{
	char path[PATH_MAX];

	if (text_copy(path, sizeof(path), dir) >= sizeof(path))
		return -ENAMETOOLONG;
	for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		if (mkdir(path, 0755) && errno != EEXIST)
			return -errno;
		*slash = '/';
	}
	return mkdir(path, 0700) && errno != EEXIST ? -errno : 0;
}

static void lock_read_holder(int fd, char *ret_pid, size_t pid_bytes)
{
	ssize_t got = pread(fd, ret_pid, pid_bytes - 1, 0);

	ret_pid[got > 0 ? got : 0] = 0;
	ret_pid[strspn(ret_pid, "0123456789")] = 0;
	if (ret_pid[0] == 0)
		text_copy(ret_pid, pid_bytes, "unknown");
}

static int folder_lock_take(struct state *state, struct state_error *error)
{
	char pid[32];
	int len, res;

	state->lock_fd = openat(state->dir_fd, STATE_LOCK, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (state->lock_fd < 0)
		return state_fail(error, -errno,
				  "cannot open %s/%s: %s; choose another folder with "
				  "--state",
				  state->dir, STATE_LOCK, strerror(errno));
	if (flock(state->lock_fd, LOCK_EX | LOCK_NB)) {
		res = -errno;
		if (res != -EWOULDBLOCK)
			return state_fail(error, res, "cannot lock %s/%s: %s", state->dir,
					  STATE_LOCK, strerror(-res));
		lock_read_holder(state->lock_fd, pid, sizeof(pid));
		return state_fail(error, -EBUSY,
				  "the state folder %s is in use by process %s; stop that process, "
				  "or choose another folder with --state",
				  state->dir, pid);
	}
	len = snprintf(pid, sizeof(pid), "%ld\n", (long)getpid());
	if (ftruncate(state->lock_fd, 0) || pwrite(state->lock_fd, pid, (size_t)len, 0) != len)
		return state_fail(error, -EIO, "cannot write %s/%s", state->dir, STATE_LOCK);
	return 0;
}

/* ---- the document of versions before the store ------------------------------------------------
 */

/* False: the document is not a state document. */
static bool old_decode(const json_t *root, struct store_counters *counters)
{
	const json_t *starts = json_object_get(root, "starts");
	const json_t *unsafe = json_object_get(root, "unsafe_shutdowns");
	const json_t *clean = json_object_get(root, "clean_shutdown");
	const char *id = json_string_value(json_object_get(root, "id"));

	if (json_integer_value(json_object_get(root, "version")) != STATE_OLD_VERSION ||
	    !json_is_integer(starts) || json_integer_value(starts) < 0 ||
	    !json_is_integer(unsafe) || json_integer_value(unsafe) < 0 || !json_is_boolean(clean))
		return false;
	if (!id || uuid_parse(id, &counters->id))
		return false;
	counters->starts = (uint64_t)json_integer_value(starts);
	counters->unsafe_shutdowns = (uint64_t)json_integer_value(unsafe);
	counters->is_clean = json_is_true(clean);
	return true;
}

static void counters_first(struct store_counters *counters)
{
	*counters = (struct store_counters){.is_clean = true};
	uuid_random(&counters->id);
}

static size_t fd_more(void *buffer, size_t bytes, void *arg_fd)
{
	ssize_t got = read(*(const int *)arg_fd, buffer, bytes);

	return got < 0 ? (size_t)-1 : (size_t)got;
}

/* The counters that a new store begins with. A damaged document held only counters, which start
 * anew. */
static int old_read(const struct state *state, struct store_counters *counters,
		    const char **ret_new_name, struct state_error *error)
{
	int fd = openat(state->dir_fd, STATE_OLD_FILE, O_RDONLY | O_CLOEXEC);
	json_error_t json_error;
	json_t *root;

	counters_first(counters);
	*ret_new_name = NULL;
	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0)
		return state_fail(error, -errno, "cannot read %s/%s: %s", state->dir,
				  STATE_OLD_FILE, strerror(errno));
	root = json_whole_read(fd_more, &fd, JSON_REJECT_DUPLICATES, &json_error);
	close(fd);
	if (!root && json_whole_errno(&json_error) == -ENOMEM)
		return state_fail(error, -ENOMEM, "cannot read %s/%s: %s", state->dir,
				  STATE_OLD_FILE, strerror(ENOMEM));
	*ret_new_name = STATE_OLD_IMPORTED;
	if (!root || !old_decode(root, counters)) {
		log_warn("control",
			 "%s/%s is damaged; the file is kept as %s, and the counters start again",
			 state->dir, STATE_OLD_FILE, STATE_OLD_DAMAGED);
		counters_first(counters);
		*ret_new_name = STATE_OLD_DAMAGED;
	}
	json_decref(root);
	return 0;
}

/* ---- opening and closing ----------------------------------------------------------------------
 */

int state_count_start(struct state *state, struct state_error *ret_error)
{
	struct store_counters counters;
	struct store_error error;
	int res;

	store_get_counters(state->store, &counters);
	state->was_unclean = !counters.is_clean;
	counters.unsafe_shutdowns += state->was_unclean;
	counters.starts++;
	counters.is_clean = false;
	res = store_set_counters(state->store, &counters, &error);
	if (res < 0)
		return state_fail(ret_error, res, "%s", error.text);
	state->id = counters.id;
	state->starts = counters.starts;
	state->unsafe_shutdowns = counters.unsafe_shutdowns;
	return 0;
}

int state_count_clean_end(struct state *state)
{
	struct store_counters counters;
	struct store_error error;
	int res;

	store_get_counters(state->store, &counters);
	counters.is_clean = true;
	res = store_set_counters(state->store, &counters, &error);
	if (res < 0)
		log_error("control", "%s", error.text);
	return res;
}

static int state_open_store(struct state *state, struct state_error *error)
{
	struct store_counters counters;
	struct store_error store_error;
	const char *old_name = NULL;
	int res = 0;

	if (faccessat(state->dir_fd, STORE_FILE, F_OK, 0))
		res = old_read(state, &counters, &old_name, error);
	if (res < 0)
		return res;
	res = store_open(state->dir, &counters, &state->store, &store_error);
	if (res < 0)
		return state_fail(error, res, "%s", store_error.text);
	/* Kept for people. The store exists now, so the file is not read again. */
	if (old_name && renameat(state->dir_fd, STATE_OLD_FILE, state->dir_fd, old_name))
		log_warn("control", "cannot rename %s/%s to %s: %s", state->dir, STATE_OLD_FILE,
			 old_name, strerror(errno));
	return state_count_start(state, error);
}

static void state_release(struct state *state)
{
	store_close(state->store);
	state->store = NULL;
	/* The lock file stays: after a removal two daemons could lock two files of one name. */
	if (state->lock_fd >= 0)
		close(state->lock_fd);
	if (state->dir_fd >= 0)
		close(state->dir_fd);
	state->lock_fd = -1;
	state->dir_fd = -1;
}

int state_open(const char *dir, struct state *ret_state, struct state_error *ret_error)
{
	int res;

	*ret_state = (struct state){.dir_fd = -1, .lock_fd = -1};
	if (text_copy(ret_state->dir, sizeof(ret_state->dir), dir) >= sizeof(ret_state->dir))
		return state_fail(ret_error, -ENAMETOOLONG, "the state folder's name is too long");
	res = dir_make(dir);
	if (res == 0) {
		ret_state->dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		res = ret_state->dir_fd < 0 ? -errno : 0;
	}
	if (res < 0)
		return state_fail(ret_error, res,
				  "cannot use the state folder %s: %s; choose one with --state",
				  dir, strerror(-res));
	res = folder_lock_take(ret_state, ret_error);
	if (res == 0)
		res = state_open_store(ret_state, ret_error);
	if (res < 0)
		state_release(ret_state);
	return res;
}

int state_close(struct state *state, bool is_clean)
{
	int res = 0;

	if (state->lock_fd < 0)
		return 0;
	if (is_clean)
		res = state_count_clean_end(state);
	state_release(state);
	return res;
}
