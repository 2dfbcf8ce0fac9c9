/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who this host is when nobody says so: the NQN and the identifier that nvme-cli keeps, or ones
 * that are derived from the machine's. Reads files: not for a reactor's thread.
 */
#ifndef WEFT_LIB_HOST_NAMES_H
#define WEFT_LIB_HOST_NAMES_H

#include "base/uuid.h"
#include "wire/nvme.h"

void host_names_nqn(char ret_nqn[NVME_NQN_BYTES]);
void host_names_id(struct uuid *ret_id);

#endif
