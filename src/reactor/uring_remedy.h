/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why io_uring cannot be used, and what to do, for the person who started the program.
 *
 * Any thread.
 */
#ifndef WEFT_REACTOR_URING_REMEDY_H
#define WEFT_REACTOR_URING_REMEDY_H

/* `error` is the negative errno with which reactor_create failed. Never NULL. */
const char *uring_remedy(int error);

#endif
