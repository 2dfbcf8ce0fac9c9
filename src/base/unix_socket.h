/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listening on a Unix socket: removes the name that a dead process left in the file system, binds
 * the name, and lets only its owner remove it.
 */
#ifndef WEFT_BASE_UNIX_SOCKET_H
#define WEFT_BASE_UNIX_SOCKET_H

#include <sys/types.h>

/* The name of a socket that this process has bound. */
struct unix_name {
	char *path; /* NULL: no name, or removed */
	dev_t dev;  /* device and inode of the socket file */
	ino_t inode;
};

/* 0 or -errno. The descriptor is blocking. */
int unix_socket_connect(const char *path, int *ret_fd);
/* Removes a socket that no process listens on. 0: the name is free. -EEXIST: the name belongs to a
 * file that is not a socket. -EADDRINUSE: another process listens. Else -errno. */
int unix_socket_clear(const char *path);
/* Clears the name, binds it with mode 0600 and listens. The descriptor is non-blocking. Returns the
 * errors of unix_socket_clear, or -errno. */
int unix_socket_listen(const char *path, int backlog, int *ret_fd, struct unix_name *ret_name);
/* Notes which socket has the name; called right after bind. */
void unix_name_note(const char *path, struct unix_name *ret_name);
/* Removes the name once, and only while it belongs to the noted socket. Called before the socket is
 * closed: until then no other socket can have its inode. */
void unix_name_remove(struct unix_name *name);

#endif
