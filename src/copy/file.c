/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens files and block devices as ends of a copy. Main thread; blocks.
 *
 * A copy takes the same locks as a target (media/file_open.c), so that neither writes to what the
 * other uses: flock() on a regular file, exclusive for a destination and shared for a source;
 * O_EXCL on a block device, which also refuses a mounted one. The locks end with the descriptor. A
 * source served for writing is refused, because the copy would mix old and new data; its nvme://
 * URL gives the same data safely. A source device in use is copied after a warning, because the
 * kernel does not distinguish mounts for reading from mounts for writing.
 */
#include "copy/journal.h"

#include "base/folder_sync.h"
#include "base/text.h"
#include "base/tool_error.h"
#include "media/file_lock.h"
#include "media/member_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HOLDER_BYTES 128

/* ---- locks ---------------------------------------------------------------------------------- */

/* "process 4711 (weft)"; a process of another container has no number here, so "another
 * process". */
static const char *holder_name(int pid, char text[HOLDER_BYTES])
{
	char path[64], name[32] = "", shown[96] = "";
	FILE *file;

	if (pid <= 0)
		return "another process";
	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	file = fopen(path, "re");
	if (file != NULL) {
		if (fgets(name, sizeof(name), file) == NULL)
			name[0] = '\0';
		fclose(file);
	}
	name[strcspn(name, "\n")] = '\0';
	text_escape(name, shown, sizeof(shown));
	if (shown[0] != '\0')
		snprintf(text, HOLDER_BYTES, "process %d (%s)", pid, shown);
	else
		snprintf(text, HOLDER_BYTES, "process %d", pid);
	return text;
}

static int refuse_held(const struct copy_end *end, bool is_source, const char *holder)
{
	if (is_source)
		tool_error(end->command,
			   "cannot read %s: %s is writing to it. If a target serves it, copy from "
			   "its nvme:// URL, or stop the target",
			   end->name, holder);
	else
		tool_error(end->command,
			   "cannot write to %s: %s is using it. If a target serves it, copy to its "
			   "nvme:// URL, or stop the target",
			   end->name, holder);
	return -EBUSY;
}

/* Checks record locks (fcntl) of other programs, for example of a virtual machine on its image. */
static int check_records(const struct copy_end *end)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	char holder[HOLDER_BYTES];

	if (fcntl(end->fd, F_OFD_GETLK, &lock) < 0 || lock.l_type == F_UNLCK)
		return 0;
	return refuse_held(end, false, holder_name(lock.l_pid, holder));
}

/* Members of a cluster share a file, and a killed member may still have a write in flight. */
static int check_members(const struct copy_end *end, bool is_source)
{
	bool is_held;

	/* Without support for these locks the file cannot belong to a cluster. */
	if (member_lock_is_held(end->fd, 0, MEMBER_LOCK_MAX, &is_held) != 0 || !is_held)
		return 0;
	tool_error(end->command,
		   "cannot %s %s: members of a cluster serve it. Copy %s its nvme:// URL, or stop "
		   "all members",
		   is_source ? "read" : "write to", end->name, is_source ? "from" : "to");
	return -EBUSY;
}

static int lock_regular(const struct copy_end *end, bool is_source)
{
	char text[HOLDER_BYTES];
	int holder;
	int res = file_lock(end->fd, is_source, true, end->name, &holder);

	if (res == -EWOULDBLOCK)
		return refuse_held(end, is_source, holder_name(holder, text));
	/* Continue if the file system has no such locks: targets refuse to serve its files. */
	if (res != 0 && res != -ENOLCK && res != -EOPNOTSUPP && res != -ENOSYS) {
		tool_error(end->command, "cannot lock %s: %s", end->name, strerror(-res));
		return res;
	}
	res = check_members(end, is_source);
	return res != 0 || is_source ? res : check_records(end);
}

/* ---- opening -------------------------------------------------------------------------------- */

/* Opens a device; O_EXCL is its lock. Returns a descriptor, or -errno after a message. */
static int open_device(const struct copy_end *end, bool is_source)
{
	int flags = (is_source ? O_RDONLY : O_RDWR) | O_CLOEXEC;
	int fd = open(end->name, flags | O_EXCL);
	int res = fd < 0 ? -errno : 0;

	if (res == -EBUSY && is_source) {
		tool_error(end->command,
			   "warning: %s is in use (mounted, part of an array, or served by a "
			   "target): data written during the copy may be copied in part",
			   end->name);
		fd = open(end->name, flags);
		res = fd < 0 ? -errno : 0;
	}
	if (res == -EBUSY)
		tool_error(end->command,
			   "cannot write to %s: it is in use (mounted, part of an array, or served "
			   "by a target). Unmount it, or copy to the nvme:// URL of the target",
			   end->name);
	else if (res != 0)
		tool_error(end->command, "%s: %s", end->name, strerror(-res));
	return res != 0 ? res : fd;
}

/* Creates a file and syncs its folder, so that the file's name is on stable media. A descriptor or
 * -errno. */
static int create_regular(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);

	if (fd < 0)
		return -errno;
	/* Other errors are accepted: some folders are writable but cannot be opened or synced. */
	if (folder_sync_of(path) == -EIO) {
		close(fd);
		return -EIO;
	}
	return fd;
}

/* Creates a missing destination, unless a journal exists. Returns a descriptor, or -errno after a
 * message. */
static int open_regular(const struct copy_end *end, const struct copy_options *options,
			enum copy_role role)
{
	int fd = open(end->name, (role == COPY_FROM ? O_RDONLY : O_RDWR) | O_CLOEXEC);

	fd = fd < 0 ? -errno : fd;
	if (fd == -ENOENT && role == COPY_TO)
		fd = create_regular(end->name);
	if (fd == -ENOENT && role == COPY_TO_AGAIN)
		tool_error(end->command,
			   "%s is missing, and the journal %s records a partial copy to it. Remove "
			   "the journal to copy everything again",
			   end->name, options->journal);
	else if (fd < 0)
		tool_error(end->command, "%s: %s", end->name, strerror(-fd));
	return fd;
}

/* Checks the type by name first: opening a pipe would block, and a device needs O_EXCL. */
static int file_open(struct copy_end *end, const struct copy_options *options, enum copy_role role,
		     struct stat *ret_info)
{
	bool is_source = role == COPY_FROM;
	bool is_there = stat(end->name, ret_info) == 0;
	bool is_device = is_there && S_ISBLK(ret_info->st_mode);

	if (is_there && !is_device && !S_ISREG(ret_info->st_mode) && !S_ISDIR(ret_info->st_mode)) {
		tool_error(end->command, "%s is neither a file nor a block device", end->name);
		return -EINVAL;
	}
	end->fd = is_device ? open_device(end, is_source) : open_regular(end, options, role);
	if (end->fd < 0)
		return end->fd;
	if (fstat(end->fd, ret_info) != 0) {
		tool_error(end->command, "%s: %s", end->name, strerror(errno));
		return -EINVAL;
	}
	/* Checked again, because another file may have got the name in between. */
	end->is_regular = S_ISREG(ret_info->st_mode);
	if (S_ISBLK(ret_info->st_mode) != is_device || (!end->is_regular && !is_device)) {
		tool_error(end->command, "%s is neither a file nor a block device", end->name);
		return -EINVAL;
	}
	return end->is_regular ? lock_regular(end, is_source) : check_members(end, is_source);
}

int copy_file_open(struct copy_end *end, const struct copy_options *options, enum copy_role role)
{
	sigset_t set, before;
	struct stat info;
	off_t bytes;
	int res;

	end->block_bytes = 1;
	/* Waiting for a lock can block. Signals may end the program meanwhile: nothing is lost. */
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	pthread_sigmask(SIG_UNBLOCK, &set, &before);
	res = file_open(end, options, role, &info);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (res != 0)
		return res;
	bytes = lseek(end->fd, 0, SEEK_END);
	if (bytes < 0) {
		tool_error(end->command, "%s: %s", end->name, strerror(errno));
		return -EINVAL;
	}
	end->size_bytes = (uint64_t)bytes;
	end->mtime = info.st_mtim;
	if (end->is_regular)
		copy_identify_file(end, &info, role == COPY_FROM);
	else
		copy_identify_device(end, &info);
	return 0;
}
