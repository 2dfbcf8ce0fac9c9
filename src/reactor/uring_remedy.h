/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why io_uring cannot be used, in words for the person who started the program.
 */
#ifndef WEFT_REACTOR_URING_REMEDY_H
#define WEFT_REACTOR_URING_REMEDY_H

/* `error` is the negative errno with which a reactor could not be made. Never NULL. */
const char *uring_remedy(int error);

#endif
