/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of Unix sockets: the name of a dead process is replaced; a name in use, or one that is no
 * socket, is not; a name is removed once, by its owner only.
 */
#include "base/unix_socket.h"

#include "temp_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static char path[128];

static bool exists(void)
{
	struct stat info;

	return lstat(path, &info) == 0;
}

static void a_name_is_bound_once(void)
{
	struct unix_name name, other;
	struct stat info;
	int fd, other_fd;

	EXPECT_EQ(0, unix_socket_listen(path, 1, &fd, &name));
	EXPECT(stat(path, &info) == 0 && (info.st_mode & 0777) == 0600);
	EXPECT_EQ(-EADDRINUSE, unix_socket_listen(path, 1, &other_fd, &other));
	EXPECT(other_fd == -1 && other.path == NULL);
	unix_name_remove(&name);
	EXPECT(!exists());
	close(fd);
}

static void what_a_dead_one_left_is_replaced(void)
{
	struct unix_name dead, name;
	int fd;

	EXPECT_EQ(0, unix_socket_listen(path, 1, &fd, &dead));
	close(fd);
	EXPECT(exists());
	EXPECT_EQ(0, unix_socket_listen(path, 1, &fd, &name));
	free(dead.path);
	unix_name_remove(&name);
	EXPECT(!exists());
	close(fd);
}

static void what_is_no_socket_stays(void)
{
	struct unix_name name;
	int fd, file = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);

	EXPECT_EQ(-EEXIST, unix_socket_clear(path));
	EXPECT_EQ(-EEXIST, unix_socket_listen(path, 1, &fd, &name));
	EXPECT(exists());
	close(file);
	unlink(path);
	EXPECT_EQ(0, unix_socket_clear(path));
}

/* The name was removed and taken by a successor while the former owner still ends. */
static void only_its_owner_removes_a_name(void)
{
	struct unix_name name, successor;
	int fd, successor_fd;

	EXPECT_EQ(0, unix_socket_listen(path, 1, &fd, &name));
	unlink(path);
	EXPECT_EQ(0, unix_socket_listen(path, 1, &successor_fd, &successor));
	unix_name_remove(&name);
	EXPECT(exists());
	EXPECT_EQ(-EADDRINUSE, unix_socket_clear(path));
	unix_name_remove(&name);
	EXPECT(exists());
	unix_name_remove(&successor);
	EXPECT(!exists());
	unix_name_remove(&successor);
	close(fd);
	close(successor_fd);
}

int main(void)
{
	if (!root_make())
		return 1;
	snprintf(path, sizeof(path), "%s/socket", root);
	TAP_RUN(a_name_is_bound_once);
	TAP_RUN(what_a_dead_one_left_is_replaced);
	TAP_RUN(what_is_no_socket_stays);
	TAP_RUN(only_its_owner_removes_a_name);
	return root_end();
}
