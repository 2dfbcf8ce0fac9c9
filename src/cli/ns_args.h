/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options that say which namespace a sub-command works on and how it is opened (client/).
 * Shared by `weft attach` and `weft copy`. Main thread.
 */
#ifndef WEFT_CLI_NS_ARGS_H
#define WEFT_CLI_NS_ARGS_H

#include "cli/options.h"
#include "client/ns_handle.h"

extern const struct cli_option ns_where_options[]; /* of a struct ns_where: where one is */
extern const struct cli_option ns_open_options[];  /* of a struct ns_options: how all are opened */

/* After the last option: what was not said is the default. */
void ns_args_finish_where(struct ns_where *where);

#endif
