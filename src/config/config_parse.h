/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of the document's reader that have files of their own. Control thread only; private to
 * the control plane.
 */
#ifndef WEFT_CONFIG_CONFIG_PARSE_H
#define WEFT_CONFIG_CONFIG_PARSE_H

#include "config/config_json.h"

/* Words of enumerations, indexed by value. */
#define CONFIG_WRITE_PROTECTS (NS_WRITE_PROTECT_PERMANENT + 1)
extern const char *const config_write_protects[CONFIG_WRITE_PROTECTS];

/* Sets the defaults and this ID; the address stays empty. */
void config_port_init(struct config_port *port, uint16_t id);
/* Each reads one element at the cursor. Wrong values add errors; the struct stays usable. */
void config_subsystem_parse(struct config_cursor *at, const json_t *object,
			    struct config_subsystem *subsystem);
void config_ns_parse(struct config_cursor *at, const json_t *object, unsigned index,
		     struct config_ns *ns);
void config_port_parse(struct config_cursor *at, const json_t *object, unsigned index,
		       struct config_port *port);

void config_rights_parse(struct config_cursor *at, const json_t *object,
			 struct config_subsystem *subsystem);

void config_cluster_parse(struct config_cursor *at, const json_t *object, struct config *config);
void config_cluster_free(struct config_cluster *cluster);
/* As written in the document; NULL: out of memory. */
json_t *config_limits_to_json(const struct target_limits *limits);
json_t *config_cluster_to_json(const struct config_cluster *cluster);
/* Whether both would be written alike. Either may be NULL. */
bool config_cluster_same(const struct config_cluster *a, const struct config_cluster *b);
/* Checks what clustered namespaces need. */
void config_cluster_check(struct config_cursor *at, const struct config *config);

/* Checks rules between elements: unique names, NSIDs, files, IDs and addresses, and no reference to
 * a missing subsystem. */
void config_cross_check(struct config_cursor *at, const struct config *config);
/* Checks the pool of one subsystem: no other pool uses its folder, and its namespaces fit. */
void config_pool_check(struct config_cursor *at, const struct config *config, unsigned index);
/* Sum of the sizes of the document's namespaces in the subsystem's pool, in bytes. */
uint64_t config_pool_used_bytes(const struct config_subsystem *subsystem);

/* A namespace and its subsystem. */
struct config_named_ns {
	const char *nqn;
	const struct config_ns *ns;
};

/* All namespaces, ascending by UUID; the caller frees the list. NULL: out of memory. */
struct config_named_ns *config_named_list(const struct config *config, unsigned *ret_count);
/* The order of that list. */
int config_by_uuid(const void *a, const void *b);
bool config_nguid_is_nil(const uint8_t nguid[16]);
/* A random serial number. */
void config_serial_make(char ret_serial[NVME_SERIAL_BYTES + 1]);
/* Whether the namespace's data are lost at the next start: memory and null media. */
bool config_ns_is_volatile(const struct config_ns *ns);
/* What holds the data, whatever the options: a file's path, else the kind. The caller frees it. */
char *config_media_identity(const char *spec);
/* Whether both specs mean the same data: one file, or one kind of medium, whatever the options and
 * size. */
bool config_media_same(const char *a, const char *b);
/* The size given in a spec; 0: none. */
uint64_t config_media_bytes(const char *spec);
/* Frees what `subsystem` points to, not the struct itself. */
void config_subsystem_release(struct config_subsystem *subsystem);
/* The path of the file under a medium; the caller frees it. NULL: no file. */
char *config_media_path(const char *spec);
/* The spec with another block=; the caller frees it. NULL: invalid spec, or out of memory. */
char *config_media_with_block(const char *spec, uint32_t block_bytes);
/* Whether `path` is directly in `folder`. */
bool config_path_in_folder(const char *path, const char *folder);
/* Whether the listeners of both ports would conflict. Each transport has port numbers of its own.
 */
bool config_ports_clash(const struct config_port *a, const struct config_port *b);

#endif
