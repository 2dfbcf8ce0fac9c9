/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listening on a Unix socket: its name in the file system is cleared of what a dead process left,
 * bound, and removed again by its owner alone.
 */
#ifndef WEFT_BASE_UNIX_SOCKET_H
#define WEFT_BASE_UNIX_SOCKET_H

#include <sys/types.h>

/* The name of a socket that this process has bound. */
struct unix_name {
	char *path; /* NULL: there is none, or it was removed */
	dev_t dev;  /* which socket has it */
	ino_t inode;
};

/* 0 or -errno. The descriptor blocks. */
int unix_socket_connect(const char *path, int *ret_fd);
/* Removes a socket that nobody listens on. 0: the name is free. -EEXIST: it is that of something
 * else; -EADDRINUSE: another process answers; or -errno. */
int unix_socket_clear(const char *path);
/* Clears the name, binds it with mode 0600 and listens; the descriptor does not block. As
 * unix_socket_clear. */
int unix_socket_listen(const char *path, int backlog, int *ret_fd, struct unix_name *ret_name);
/* Which socket has the name, right after it was bound. */
void unix_name_note(const char *path, struct unix_name *ret_name);
/* To be called before the socket is closed: until then no other one has its inode. Removes the name
 * once, and only while it is that of the socket that was noted. */
void unix_name_remove(struct unix_name *name);

#endif
