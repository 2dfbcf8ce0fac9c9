/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens a file medium: creates or grows the file, locks it against a second target, and finds out
 * what the file supports (block size, direct I/O and its alignment, write cache, discards).
 * media_sync makes a new or grown file durable.
 *
 * Control thread; blocks. Uses direct I/O where the file system and the block size allow, and
 * buffered I/O otherwise: a store may be slower, but is not refused. The lock is flock() on regular
 * files (shared for readonly) and O_EXCL on block devices, which also excludes mounted devices.
 * Members of a cluster share the file and hold locks of their own instead.
 */
#include "media/file.h"
#include "media/file_device.h"
#include "media/file_lock.h"
#include "media/file_loop.h"
#include "media/member_lock.h"
#include "media/spec.h"

#include "base/clock.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#define LOCK_WAIT_NS      (3 * NS_PER_S)
#define LOCK_RETRY_NS     (20 * NS_PER_MS)
#define DIRECT_ALIGN_SAFE 4096u /* where the kernel does not report the alignment */

/* The exclusive open locks a block device. A killed target releases the lock late, so retry. */
static int open_in_time(const struct media_spec *spec, int flags)
{
	uint64_t deadline_ns = clock_monotonic_ns() + LOCK_WAIT_NS;
	int fd;

	while ((fd = open(spec->path, flags)) < 0) {
		if (errno != EBUSY || spec->must_not_wait || clock_monotonic_ns() > deadline_ns)
			return -errno;
		nanosleep(&(struct timespec){.tv_nsec = LOCK_RETRY_NS}, NULL);
	}
	return fd;
}

/* Several members cannot all open a device exclusively. Each member opens the device exclusively
 * once, to find other exclusive users such as a mount, and then again without. */
static int open_store(const struct media_spec *spec, const struct stat *st)
{
	int flags = (spec->is_read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC;
	bool is_exclusive = S_ISBLK(st->st_mode) && !spec->is_read_only;
	int fd = open_in_time(spec, flags | (is_exclusive ? O_EXCL : 0));

	if (fd < 0 || !is_exclusive || !spec->is_shared)
		return fd;
	close(fd);
	return open_in_time(spec, flags);
}

/* Waits for the last operations of members that were killed. -EBUSY: a member still holds its
 * lock. */
static int wait_for_members(int fd, bool may_wait)
{
	uint64_t deadline_ns = clock_monotonic_ns() + LOCK_WAIT_NS;
	bool is_held;
	int res;

	while ((res = member_lock_is_held(fd, 0, MEMBER_LOCK_MAX, &is_held)) == 0 && is_held) {
		if (!may_wait || clock_monotonic_ns() > deadline_ns)
			return -EBUSY;
		nanosleep(&(struct timespec){.tv_nsec = LOCK_RETRY_NS}, NULL);
	}
	/* An error means that the file system has no such locks: no member can share the file. */
	return 0;
}

/* The locks between members of a cluster, and against other processes: see media/member_lock.c. */
static int lock_members(int fd, const struct media_spec *spec, struct media_error *ret_error)
{
	bool may_wait = !spec->must_not_wait;
	int res = spec->is_shared ? member_lock_claim(fd, spec->member, may_wait)
				  : wait_for_members(fd, may_wait);

	if (res == -EBUSY)
		return media_fail(ret_error, res,
				  "%.140s is served by members of a cluster; stop them or use "
				  "another file",
				  spec->path);
	if (res == -EWOULDBLOCK)
		return media_fail(
			ret_error, res,
			"%.140s is served by another process that is the same member of the "
			"cluster; stop that process, or give this member another name",
			spec->path);
	if (res < 0)
		return media_fail(ret_error, res, "cannot lock %.140s for a cluster: %s",
				  spec->path, strerror(-res));
	return 0;
}

static int lock_file(int fd, const struct media_spec *spec, struct media_error *ret_error)
{
	int holder;
	int res = file_lock(fd, spec->is_read_only || spec->is_shared, !spec->must_not_wait,
			    spec->path, &holder);

	if (res == 0)
		return lock_members(fd, spec, ret_error);
	if (res == -EWOULDBLOCK && holder == getpid())
		return media_fail(ret_error, res,
				  "%.100s is open in this target: under another name, or until the "
				  "last commands of a removed namespace have ended; try again",
				  spec->path);
	if (res == -EWOULDBLOCK && holder != 0)
		return media_fail(ret_error, res,
				  "%.140s is in use by another target or copy (process %d); stop "
				  "that process or use another file",
				  spec->path, holder);
	if (res == -EWOULDBLOCK)
		return media_fail(ret_error, res,
				  "%.110s is in use by a process that is ending, or is hidden from "
				  "this target; try again, stop that process, or use another file",
				  spec->path);
	return media_fail(ret_error, res, "cannot lock %.160s: %s", spec->path, strerror(-res));
}

static int create_file(const struct media_spec *spec, int *ret_fd, struct media_error *ret_error)
{
	int res;
	int fd;

	if (spec->is_read_only)
		return media_fail(ret_error, -ENOENT,
				  "no such file: %.160s; readonly stores are not created",
				  spec->path);
	if (spec->size_bytes == 0)
		return media_fail(ret_error, -ENOENT,
				  "no such file: %.160s; add size=… to create it", spec->path);
	if (spec->size_bytes < (spec->block_bytes ? spec->block_bytes : MEDIA_BLOCK_DEFAULT))
		return media_fail(ret_error, -EINVAL, "size=%llu is less than one block",
				  (unsigned long long)spec->size_bytes);
	fd = open(spec->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0 && errno == EEXIST && spec->is_shared)
		return -EEXIST;
	if (fd < 0)
		return media_fail(ret_error, -errno, "cannot create %.160s: %s", spec->path,
				  strerror(errno));
	res = lock_file(fd, spec, ret_error);
	if (res < 0) {
		/* Another target opened the file in between. The file is in use there, so leave it
		 * in place. */
		close(fd);
		return res;
	}
	if (ftruncate(fd, (off_t)spec->size_bytes) < 0) {
		res = media_fail(ret_error, -errno, "cannot make %.140s %llu bytes long: %s",
				 spec->path, (unsigned long long)spec->size_bytes, strerror(errno));
		if (!spec->is_shared)
			unlink(spec->path);
		close(fd);
		return res;
	}
	*ret_fd = fd;
	return 0;
}

static int check_type(const struct stat *st, const struct media_spec *spec,
		      struct media_error *ret_error)
{
	const char *what;

	switch (st->st_mode & S_IFMT) {
	case S_IFREG:
	case S_IFBLK:
		return 0;
	case S_IFDIR:
		what = "a directory";
		break;
	case S_IFCHR:
		what = "a character device";
		break;
	default:
		what = "a pipe or socket";
		break;
	}
	return media_fail(ret_error, -EINVAL,
			  "%.160s is %s; a regular file or a block device is needed", spec->path,
			  what);
}

/* A loop device takes no lock on its file, so check both ways: neither the file nor its loop device
 * may be served while the other is in use. */
static int check_loop(const struct media_spec *spec, const struct stat *st,
		      struct media_error *ret_error)
{
	ino_t inode;
	dev_t dev;
	int found;

	if (spec->is_read_only)
		return 0;
	if (S_ISREG(st->st_mode)) {
		found = file_loop_find(st->st_dev, st->st_ino);
		if (found < 0)
			return 0;
		return media_fail(ret_error, -EBUSY,
				  "%.110s is the file of /dev/loop%d, which may be mounted; detach "
				  "the loop device (losetup -d), or serve it instead of the file",
				  spec->path, found);
	}
	if (!file_loop_backing(st->st_rdev, &dev, &inode))
		return 0;
	found = file_lock_holder(dev, inode);
	if (found == 0)
		return 0;
	return media_fail(ret_error, -EBUSY,
			  "the file of %.110s is in use by a target or copy (process %d); stop "
			  "that process, or use another device",
			  spec->path, found);
}

/* Opens and locks the store, then checks its type again: the path may name another file by now. */
static int open_existing(const struct media_spec *spec, int *ret_fd, struct media_error *ret_error)
{
	struct stat st;
	int res;
	int fd;

	if (stat(spec->path, &st) < 0)
		return media_fail(ret_error, -errno, "cannot open %.160s: %s", spec->path,
				  strerror(errno));
	res = check_type(&st, spec, ret_error);
	if (res < 0)
		return res;
	fd = open_store(spec, &st);
	if (fd == -EBUSY)
		return media_fail(ret_error, -EBUSY,
				  "%.140s is in use: mounted, part of an array, or served by "
				  "another target",
				  spec->path);
	if ((fd == -EROFS || fd == -EACCES) && !spec->is_read_only)
		return media_fail(
			ret_error, fd,
			"cannot open %.140s for writing: %s; for reads alone add readonly",
			spec->path, strerror(-fd));
	if (fd < 0)
		return media_fail(ret_error, fd, "cannot open %.160s: %s", spec->path,
				  strerror(-fd));
	if (fstat(fd, &st) < 0)
		res = media_fail(ret_error, -errno, "%.160s: %s", spec->path, strerror(errno));
	else
		res = check_type(&st, spec, ret_error);
	if (res == 0)
		res = S_ISREG(st.st_mode) ? lock_file(fd, spec, ret_error)
					  : lock_members(fd, spec, ret_error);
	if (res == 0)
		res = check_loop(spec, &st, ret_error);
	if (res < 0) {
		close(fd);
		return res;
	}
	*ret_fd = fd;
	return 0;
}

/* Grows an existing regular file to size=. Never cuts a file: that would destroy blocks. */
static int grow_file(struct file_media *file, const struct media_spec *spec, uint64_t now_bytes,
		     struct media_error *ret_error)
{
	if (spec->size_bytes == 0 || spec->size_bytes == now_bytes)
		return 0;
	/* Larger than size= after an unfinished growth: serve the same size as before. */
	if (spec->size_bytes < now_bytes && file->backing->may_exceed_size)
		return 0;
	if (spec->size_bytes < now_bytes)
		return media_fail(ret_error, -EINVAL,
				  "%.110s holds %llu bytes and size=%llu would cut it; leave size= "
				  "out, or truncate the file yourself",
				  spec->path, (unsigned long long)now_bytes,
				  (unsigned long long)spec->size_bytes);
	if (spec->is_read_only)
		return media_fail(ret_error, -EINVAL,
				  "%.110s holds %llu bytes and readonly forbids growing it to "
				  "size=%llu",
				  spec->path, (unsigned long long)now_bytes,
				  (unsigned long long)spec->size_bytes);
	file->grown_from_bytes = now_bytes;
	file->is_stable = false;
	if (ftruncate(file->fd, (off_t)spec->size_bytes) < 0)
		return media_fail(ret_error, -errno, "cannot grow %.140s to %llu bytes: %s",
				  spec->path, (unsigned long long)spec->size_bytes,
				  strerror(errno));
	log_info("media", "%s: grown from %llu to %llu bytes", spec->path,
		 (unsigned long long)now_bytes, (unsigned long long)spec->size_bytes);
	return 0;
}

static int setup_regular(struct file_media *file, const struct media_spec *spec,
			 struct media_error *ret_error)
{
	struct media *media = &file->media;
	uint64_t size_bytes;
	struct stat st;
	int res;

	if (fstat(file->fd, &st) < 0)
		return media_fail(ret_error, -errno, "%.160s: %s", spec->path, strerror(errno));
	res = grow_file(file, spec, (uint64_t)st.st_size, ret_error);
	if (res < 0)
		return res;
	if (fstat(file->fd, &st) < 0)
		return media_fail(ret_error, -errno, "%.160s: %s", spec->path, strerror(errno));
	media->block_bytes = spec->block_bytes ? spec->block_bytes : MEDIA_BLOCK_DEFAULT;
	size_bytes = (uint64_t)st.st_size;
	if (file->backing->may_exceed_size && spec->size_bytes != 0 &&
	    spec->size_bytes < size_bytes) {
		log_info("media", "%s: %llu of its %llu bytes are served, as size= limits",
			 spec->path, (unsigned long long)spec->size_bytes,
			 (unsigned long long)size_bytes);
		size_bytes = spec->size_bytes;
	}
	media->size_bytes = size_bytes - size_bytes % media->block_bytes;
	if (media->size_bytes == 0)
		return media_fail(ret_error, -EINVAL,
				  "%.140s holds %llu bytes, less than one block of %u; add size=…",
				  spec->path, (unsigned long long)size_bytes, media->block_bytes);
	if (media->size_bytes != size_bytes)
		log_info("media", "%s: the last %llu bytes are no whole block and are not served",
			 spec->path, (unsigned long long)(size_bytes % media->block_bytes));
	/* Punching behind the end of the file loses nothing; the call only tests support for
	 * holes. */
	media->can_discard = !spec->is_read_only &&
			     fallocate(file->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				       st.st_size, MEDIA_BLOCK_DEFAULT) == 0;
	media->reads_zero_after_discard = media->can_discard;
	media->knows_extents = true;
	media->is_thin = media->can_discard || (uint64_t)st.st_blocks * 512 < (uint64_t)st.st_size;
	media->has_volatile_cache = file->backing->is_writable;
	media->optimal_io_bytes = st.st_blksize > 0 ? (uint32_t)st.st_blksize : 0;
	media->write_granularity_bytes = media->optimal_io_bytes;
	media->discard_granularity_bytes = media->can_discard ? media->optimal_io_bytes : 0;
	return 0;
}

/* Reads one attribute of the device's queue; of a partition, from its disk. "" when unknown. */
static void read_queue_attribute(dev_t dev, const char *name, char *text, size_t text_bytes)
{
	static const char *const places[] = {"queue", "../queue"};
	char path[128];

	text[0] = '\0';
	for (unsigned i = 0; i < ARRAY_LEN(places); i++) {
		FILE *attribute;

		snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/%s/%s", major(dev), minor(dev),
			 places[i], name);
		attribute = fopen(path, "re");
		if (!attribute)
			continue;
		if (!fgets(text, (int)text_bytes, attribute))
			text[0] = '\0';
		fclose(attribute);
		text[strcspn(text, "\n")] = '\0';
		return;
	}
}

uint32_t file_sectors_to_bytes(const char *text)
{
	unsigned long long sectors = strtoull(text, NULL, 10);

	return sectors <= UINT32_MAX / 512 ? (uint32_t)sectors * 512 : 0;
}

static int setup_block_size(struct file_media *file, const struct media_spec *spec,
			    struct media_error *ret_error)
{
	int logical_bytes = 0;

	if (ioctl(file->fd, BLKSSZGET, &logical_bytes) < 0)
		return media_fail(ret_error, -errno, "%.140s: block size unknown: %s", spec->path,
				  strerror(errno));
	if (logical_bytes != 512 && logical_bytes != 4096)
		return media_fail(ret_error, -EINVAL,
				  "%.140s has blocks of %d bytes; 512 or 4096 are supported",
				  spec->path, logical_bytes);
	if (spec->block_bytes != 0 && spec->block_bytes < (uint32_t)logical_bytes)
		return media_fail(ret_error, -EINVAL,
				  "block=%u is smaller than the blocks of %.120s, which have %d "
				  "bytes; leave block= out",
				  spec->block_bytes, spec->path, logical_bytes);
	file->media.block_bytes = spec->block_bytes ? spec->block_bytes : (uint32_t)logical_bytes;
	return 0;
}

static int setup_block_device(struct file_media *file, const struct media_spec *spec, dev_t dev,
			      struct media_error *ret_error)
{
	struct media *media = &file->media;
	unsigned physical_bytes = 0;
	uint64_t size_bytes = 0;
	int is_locked = 0;
	char text[32];
	int res;

	if (spec->size_bytes != 0)
		return media_fail(ret_error, -EINVAL,
				  "%.160s is a block device and has its own size; leave size= out",
				  spec->path);
	res = setup_block_size(file, spec, ret_error);
	if (res < 0)
		return res;
	if (ioctl(file->fd, BLKGETSIZE64, &size_bytes) < 0)
		return media_fail(ret_error, -errno, "%.160s: size unknown: %s", spec->path,
				  strerror(errno));
	media->size_bytes = size_bytes - size_bytes % media->block_bytes;
	if (media->size_bytes == 0)
		return media_fail(ret_error, -EINVAL, "%.160s has no medium (size 0)", spec->path);
	if (!spec->is_read_only && ioctl(file->fd, BLKROGET, &is_locked) == 0 && is_locked)
		return media_fail(ret_error, -EROFS, "%.160s is read-only; add readonly",
				  spec->path);
	read_queue_attribute(dev, "write_cache", text, sizeof(text));
	media->has_volatile_cache =
		file->backing->is_writable && strcmp(text, "write through") != 0;
	read_queue_attribute(dev, "discard_max_bytes", text, sizeof(text));
	media->can_discard = !spec->is_read_only && strtoull(text, NULL, 10) > 0;
	read_queue_attribute(dev, "optimal_io_size", text, sizeof(text));
	media->optimal_io_bytes = (uint32_t)strtoul(text, NULL, 10);
	if (ioctl(file->fd, BLKPBSZGET, &physical_bytes) == 0)
		media->write_granularity_bytes = physical_bytes;
	if (media->optimal_io_bytes == 0)
		media->optimal_io_bytes = physical_bytes;
	read_queue_attribute(dev, "discard_granularity", text, sizeof(text));
	media->discard_granularity_bytes =
		media->can_discard ? (uint32_t)strtoul(text, NULL, 10) : 0;
	/* The size of stripes, zones and the like. */
	read_queue_attribute(dev, "chunk_sectors", text, sizeof(text));
	media->boundary_bytes = file_sectors_to_bytes(text);
	file->is_block_device = true;
	return 0;
}

struct direct_align {
	uint32_t memory_bytes;
	uint32_t offset_bytes; /* 0: direct I/O is not possible */
};

static struct direct_align find_direct_align(const struct file_media *file)
{
	struct direct_align align = {DIRECT_ALIGN_SAFE, DIRECT_ALIGN_SAFE};
	int logical_bytes = 0;
#ifdef STATX_DIOALIGN
	struct statx stx;

	memset(&stx, 0, sizeof(stx));
	if (statx(file->fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &stx) == 0 &&
	    (stx.stx_mask & STATX_DIOALIGN)) {
		align.memory_bytes = stx.stx_dio_mem_align;
		align.offset_bytes = stx.stx_dio_offset_align;
		return align;
	}
#endif
	if (file->is_block_device && ioctl(file->fd, BLKSSZGET, &logical_bytes) == 0)
		align.memory_bytes = align.offset_bytes = (uint32_t)logical_bytes;
	return align;
}

/* Switches direct I/O on where direct I/O can transfer every block on its own. */
static int setup_direct(struct file_media *file, const struct media_spec *spec,
			struct media_error *ret_error)
{
	struct direct_align align = find_direct_align(file);
	bool has_volatile_cache = file->media.has_volatile_cache;

	bool is_possible = align.offset_bytes != 0 && align.offset_bytes <= file->media.block_bytes;
	int res = file_set_direct(file, is_possible);

	file->media.buffer_align_bytes = 1;
	file->is_buffered = !is_possible || res < 0;
	file->backing->was_buffered |= file->is_buffered;
	file->may_have_dirty_pages = file->backing->was_buffered;
	/* With buffered I/O the page cache is volatile, whatever the drive has. The same holds
	 * where hosts wrote before the medium became readonly or left buffered I/O. */
	file->media.has_volatile_cache = file->backing->is_writable;
	if (res < 0 && !is_possible)
		return media_fail(ret_error, res, "%.160s: cannot leave direct I/O: %s", spec->path,
				  strerror(-res));
	if (align.offset_bytes == 0) {
		log_info("media", "%s: no direct I/O here, using buffered I/O", spec->path);
	} else if (!is_possible) {
		log_info("media",
			 "%s: blocks of %u bytes are smaller than direct I/O takes here (%u), "
			 "using buffered I/O",
			 spec->path, file->media.block_bytes, align.offset_bytes);
	} else if (res < 0) {
		log_info("media", "%s: no direct I/O (%s), using buffered I/O", spec->path,
			 strerror(-res));
	} else {
		if (!file->may_have_dirty_pages)
			file->media.has_volatile_cache = has_volatile_cache;
		if (align.memory_bytes > 1)
			file->media.buffer_align_bytes = align.memory_bytes;
	}
	return 0;
}

int file_setup(struct file_media *file, const struct media_spec *spec,
	       struct media_error *ret_error)
{
	struct stat st;
	int res;

	if (fstat(file->fd, &st) < 0)
		return media_fail(ret_error, -errno, "%.160s: %s", spec->path, strerror(errno));
	file->is_stable = !file->has_created;
	if (S_ISBLK(st.st_mode))
		res = setup_block_device(file, spec, st.st_rdev, ret_error);
	else
		res = setup_regular(file, spec, ret_error);
	if (res < 0)
		return res;
	file->media.ops = &file_ops;
	file->media.is_read_only = spec->is_read_only;
	file->follows_size = spec->size_bytes == 0;
	atomic_init(&file->cut_at_bytes, UINT64_MAX);
	atomic_init(&file->cut_seen_bytes, UINT64_MAX);
	atomic_init(&file->next_look_ns, 0);
	return setup_direct(file, spec, ret_error);
}

/* Sets the device's identity. Where the identity cannot be read, keeps the recorded one. */
static void device_note(struct file_backing *backing, dev_t dev, const struct media_spec *spec)
{
	if (!file_device_identify(dev, backing->device_id) && spec->known)
		memcpy(backing->device_id, spec->known->device_id, sizeof(backing->device_id));
	if (backing->device_id[0] == '\0')
		log_warn("media",
			 "%s: the device has no identity that can be read: if another device has "
			 "this name after a restart, that device is served; use a persistent name, "
			 "such as one in /dev/disk/by-id",
			 spec->path);
}

static int backing_create(struct file_media *file, const struct media_spec *spec)
{
	struct file_backing *backing = calloc(1, sizeof(*backing));
	struct stat st;

	if (!backing || fstat(file->fd, &st) < 0) {
		free(backing);
		return backing ? -errno : -ENOMEM;
	}
	backing->refs = 1;
	backing->fd = file->fd;
	backing->is_writable = (fcntl(file->fd, F_GETFL) & O_ACCMODE) == O_RDWR;
	backing->dev = st.st_dev;
	backing->inode = st.st_ino;
	backing->member = spec->is_shared ? (int)spec->member : -1;
	backing->had_name = file_has_name(file);
	backing->may_exceed_size = spec->known != NULL;
	file->backing = backing;
	if (S_ISBLK(st.st_mode))
		device_note(backing, st.st_rdev, spec);
	return 0;
}

/* Checks that the store is the one served last: same type, and not smaller. */
static int check_known(int fd, const struct media_spec *spec, struct media_error *ret_error)
{
	const struct media_record *known = spec->known;
	uint64_t size_bytes;
	struct stat st;

	if (known->is_given_up)
		return media_fail(ret_error, -EUCLEAN, MEDIA_GIVEN_UP_TEXT, spec->path);
	if (fstat(fd, &st) < 0)
		return media_fail(ret_error, -errno, "%.160s: %s", spec->path, strerror(errno));
	if (known->has_type && S_ISBLK(st.st_mode) != known->is_block_device)
		return media_fail(ret_error, -EUCLEAN, "%.140s is a %s now and was a %s",
				  spec->path, S_ISBLK(st.st_mode) ? "block device" : "file",
				  known->is_block_device ? "block device" : "file");
	size_bytes = (uint64_t)st.st_size;
	if (S_ISBLK(st.st_mode) && ioctl(fd, BLKGETSIZE64, &size_bytes) < 0)
		return media_fail(ret_error, -errno, "%.160s: %s", spec->path, strerror(errno));
	if (size_bytes < known->size_bytes)
		return media_fail(ret_error, -EUCLEAN, "%.140s has %llu bytes and had %llu",
				  spec->path, (unsigned long long)size_bytes,
				  (unsigned long long)known->size_bytes);
	return S_ISBLK(st.st_mode) ? file_device_check(st.st_rdev, spec, ret_error) : 0;
}

static int open_known(const struct media_spec *spec, int *ret_fd, struct media_error *ret_error)
{
	struct stat st;
	int res;

	if (stat(spec->path, &st) < 0)
		return media_fail(ret_error, -errno, "%.160s is missing: %s", spec->path,
				  strerror(errno));
	if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
		return media_fail(ret_error, -EUCLEAN,
				  "%.160s is neither a file nor a block device", spec->path);
	res = open_existing(spec, ret_fd, ret_error);
	if (res == 0) {
		res = check_known(*ret_fd, spec, ret_error);
		if (res < 0)
			close(*ret_fd);
	}
	return res;
}

/* Fills aside with "PATH.lost". False: the path is too long. */
static bool aside_path(const char *path, char aside[PATH_MAX])
{
	return snprintf(aside, PATH_MAX, "%s.lost", path) < PATH_MAX;
}

void file_put_back(const char *path)
{
	char aside[PATH_MAX];

	if (aside_path(path, aside) && rename(aside, path) < 0)
		log_warn("media", "%s: cannot be renamed to %s again: %s", aside, path,
			 strerror(errno));
}

/* Renames a file whose data are given up to PATH.lost, so that its bytes are kept. */
static int set_aside(struct file_media *file, const struct media_spec *spec,
		     struct media_error *ret_error)
{
	char aside[PATH_MAX];
	struct stat st;

	if (lstat(spec->path, &st) < 0)
		return errno == ENOENT ? 0
				       : media_fail(ret_error, -errno, "%.160s: %s", spec->path,
						    strerror(errno));
	if (!S_ISREG(st.st_mode))
		return media_fail(ret_error, -EINVAL,
				  "%.140s is not a regular file: only a file can be recreated",
				  spec->path);
	if (!aside_path(spec->path, aside))
		return media_fail(ret_error, -ENAMETOOLONG, "%.140s: the name is too long",
				  spec->path);
	if (access(aside, F_OK) == 0)
		return media_fail(ret_error, -EEXIST,
				  "%.140s exists already: move it away, then try again", aside);
	if (rename(spec->path, aside) < 0)
		return media_fail(ret_error, -errno, "cannot rename %.140s: %s", spec->path,
				  strerror(errno));
	log_warn("media", "%s: the former file was renamed to %s", spec->path, aside);
	file->has_set_aside = true;
	return 0;
}

static int open_fd(struct file_media *file, const struct media_spec *spec,
		   struct media_error *ret_error)
{
	struct stat st;
	int res = spec->is_recreated ? set_aside(file, spec, ret_error) : 0;

	if (res < 0)
		return res;
	if (spec->known && !spec->is_recreated)
		return open_known(spec, &file->fd, ret_error);
	if (stat(spec->path, &st) < 0 && errno == ENOENT) {
		res = create_file(spec, &file->fd, ret_error);
		file->has_created = res == 0;
		if (res < 0 && file->has_set_aside)
			file_put_back(spec->path);
	} else {
		res = -EEXIST;
	}
	/* -EEXIST also when another member has just created the file. */
	return res == -EEXIST ? open_existing(spec, &file->fd, ret_error) : res;
}

bool file_get_record(const struct media *media, struct media_record *ret_record)
{
	const struct file_media *file = container_of(media, const struct file_media, media);

	*ret_record = (struct media_record){.size_bytes = media->size_bytes,
					    .block_bytes = media->block_bytes,
					    .has_type = true,
					    .is_block_device = file->is_block_device};
	file_identify(file, ret_record);
	return true;
}

int media_file_open(const struct media_spec *spec, struct media **ret_media,
		    struct media_error *ret_error)
{
	struct file_media *file = calloc(1, sizeof(*file));
	int res;

	if (!file)
		return media_fail(ret_error, -ENOMEM, "out of memory");
	res = open_fd(file, spec, ret_error);
	if (res < 0) {
		free(file);
		return res;
	}
	res = backing_create(file, spec);
	if (res < 0) {
		media_fail(ret_error, res, "%.160s: %s", spec->path, strerror(-res));
		close(file->fd);
		free(file);
		return res;
	}
	res = file_setup(file, spec, ret_error);
	if (res < 0) {
		file_backing_put(file->backing);
		free(file);
		return res;
	}
	if (spec->known && !spec->is_recreated)
		file_note_known(file, spec->path, spec->known);
	*ret_media = &file->media;
	return 0;
}
