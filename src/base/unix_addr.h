/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The address of a Unix socket from its path, also from one that is longer than an address.
 */
#ifndef WEFT_BASE_UNIX_ADDR_H
#define WEFT_BASE_UNIX_ADDR_H

#include <sys/socket.h>
#include <sys/un.h>

/*
 * 0 or -errno. *ret_folder is a descriptor that the address depends on, to be closed after bind or
 * connect; -1 when there is none.
 */
int unix_addr_make(const char *path, struct sockaddr_un *ret_addr, int *ret_folder);

#endif
