/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state folder: weft.lock, held by flock(2) for as long as the daemon lives and naming its
 * process, and state.json, replaced atomically (written beside, synced, renamed, folder synced):
 * starts, unsafe shutdowns, and whether the last end was clean. A start marks the state as not
 * clean; only an orderly end marks it clean again, so a kill or a power cut is counted.
 *
 * Control thread only.
 */
#include "control/state.h"

#include "base/log.h"
#include "base/text.h"

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

#define STATE_FILE     "state.json"
#define STATE_FILE_NEW "state.json.new"
#define STATE_DAMAGED  "state.json.damaged"
#define STATE_LOCK     "weft.lock"
#define STATE_VERSION  1

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

/* mkdir -p: what is missing of the way is made for everybody to pass, the folder for us alone. */
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

static int lock_take(struct state *state, struct state_error *error)
{
	char pid[32];
	int len, res;

	state->lock_fd = openat(state->dir_fd, STATE_LOCK, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (state->lock_fd < 0)
		return state_fail(error, -errno, "cannot open %s/%s: %s", state->dir, STATE_LOCK,
				  strerror(errno));
	if (flock(state->lock_fd, LOCK_EX | LOCK_NB)) {
		res = -errno;
		if (res != -EWOULDBLOCK)
			return state_fail(error, res, "cannot lock %s/%s: %s", state->dir,
					  STATE_LOCK, strerror(-res));
		lock_read_holder(state->lock_fd, pid, sizeof(pid));
		return state_fail(error, -EBUSY,
				  "the state folder %s is in use by process %s; stop that one, or "
				  "choose another folder with --state",
				  state->dir, pid);
	}
	len = snprintf(pid, sizeof(pid), "%ld\n", (long)getpid());
	if (ftruncate(state->lock_fd, 0) || pwrite(state->lock_fd, pid, (size_t)len, 0) != len)
		return state_fail(error, -EIO, "cannot write %s/%s", state->dir, STATE_LOCK);
	return 0;
}

static int file_replace(const struct state *state, const char *text)
{
	size_t len = strlen(text);
	int fd = openat(state->dir_fd, STATE_FILE_NEW,
			O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	int res = 0;

	if (fd < 0)
		return -errno;
	for (size_t done = 0; res == 0 && done < len;) {
		ssize_t got = write(fd, text + done, len - done);

		if (got > 0)
			done += (size_t)got;
		else if (got < 0 && errno != EINTR)
			res = -errno;
	}
	if (res == 0 && fsync(fd))
		res = -errno;
	close(fd);
	if (res == 0 && renameat(state->dir_fd, STATE_FILE_NEW, state->dir_fd, STATE_FILE))
		res = -errno;
	if (res == 0 && fsync(state->dir_fd))
		res = -errno;
	return res;
}

static int state_write(const struct state *state, bool is_clean)
{
	char id[UUID_TEXT_BYTES];
	json_t *root;
	char *text;
	int res;

	root = json_pack("{s:i,s:s,s:I,s:I,s:b}", "version", STATE_VERSION, "id",
			 uuid_format(&state->id, id), "starts", (json_int_t)state->starts,
			 "unsafe_shutdowns", (json_int_t)state->unsafe_shutdowns, "clean_shutdown",
			 is_clean);
	text = root ? json_dumps(root, JSON_INDENT(2) | JSON_PRESERVE_ORDER) : NULL;
	res = text ? file_replace(state, text) : -ENOMEM;
	free(text);
	json_decref(root);
	return res;
}

/* False: the text is not a state document. */
static bool state_decode(const json_t *root, struct state *state, bool *ret_is_clean)
{
	const json_t *starts = json_object_get(root, "starts");
	const json_t *unsafe = json_object_get(root, "unsafe_shutdowns");
	const json_t *clean = json_object_get(root, "clean_shutdown");
	const char *id = json_string_value(json_object_get(root, "id"));

	if (json_integer_value(json_object_get(root, "version")) != STATE_VERSION ||
	    !json_is_integer(starts) || json_integer_value(starts) < 0 ||
	    !json_is_integer(unsafe) || json_integer_value(unsafe) < 0 || !json_is_boolean(clean))
		return false;
	if (!id || uuid_parse(id, &state->id))
		return false;
	state->starts = (uint64_t)json_integer_value(starts);
	state->unsafe_shutdowns = (uint64_t)json_integer_value(unsafe);
	*ret_is_clean = json_is_true(clean);
	return true;
}

/* A damaged document holds only counters: it is set aside, and counting starts anew. */
static int state_read(struct state *state, struct state_error *error)
{
	int fd = openat(state->dir_fd, STATE_FILE, O_RDONLY | O_CLOEXEC);
	bool is_clean = true, is_good;
	json_error_t json_error;
	json_t *root;

	uuid_random(&state->id);
	if (fd < 0 && errno == ENOENT)
		return 0;
	if (fd < 0)
		return state_fail(error, -errno, "cannot read %s/%s: %s", state->dir, STATE_FILE,
				  strerror(errno));
	root = json_loadfd(fd, JSON_REJECT_DUPLICATES, &json_error);
	close(fd);
	is_good = root && state_decode(root, state, &is_clean);
	json_decref(root);
	if (!is_good) {
		log_warn("control", "%s/%s is damaged; it is kept as %s, and counting starts anew",
			 state->dir, STATE_FILE, STATE_DAMAGED);
		if (renameat(state->dir_fd, STATE_FILE, state->dir_fd, STATE_DAMAGED))
			return state_fail(error, -errno, "cannot rename the damaged %s/%s: %s",
					  state->dir, STATE_FILE, strerror(errno));
		state->starts = 0;
		state->unsafe_shutdowns = 0;
		uuid_random(&state->id);
		return 0;
	}
	state->was_unclean = !is_clean;
	state->unsafe_shutdowns += state->was_unclean;
	return 0;
}

static void state_release(struct state *state)
{
	/* The lock file stays: removing it would let two daemons lock two files of one name. */
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
	res = lock_take(ret_state, ret_error);
	if (res == 0)
		res = state_read(ret_state, ret_error);
	if (res == 0) {
		ret_state->starts++;
		res = state_write(ret_state, false);
		if (res < 0)
			state_fail(ret_error, res, "cannot write %s/%s: %s", dir, STATE_FILE,
				   strerror(-res));
	}
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
		res = state_write(state, true);
	state_release(state);
	return res;
}
