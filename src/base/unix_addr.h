/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the address of a Unix socket from its path, also from a path that is longer than an
 * address.
 */
#ifndef WEFT_BASE_UNIX_ADDR_H
#define WEFT_BASE_UNIX_ADDR_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

/*
 * 0 or -errno. *ret_folder is a descriptor that the address depends on, which the caller closes
 * after bind or connect; -1: none is needed.
 */
int unix_addr_make(const char *path, struct sockaddr_un *ret_addr, int *ret_folder);

/* Most bytes of the socket's name in its folder, where the address needs a descriptor. */
#define UNIX_ADDR_NAME_MAX 80
/* Whether unix_addr_make can make an address of the path, provided that the folder exists. */
bool unix_addr_fits(const char *path);

#endif
