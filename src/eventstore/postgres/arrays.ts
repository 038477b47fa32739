const oids = { boolean: 16, int8: 20, int4: 23, text: 25, timestamptz: 1184, uuid: 2950 } as const

const headerBytes = 20

/** The header of a one-dimensional array in Postgres's binary format (array_send in its source). */
const withHeader = (elementType: number, length: number, bytes: number, nulls = false): Buffer => {
  const buffer = Buffer.allocUnsafe(headerBytes + bytes)
  buffer.writeInt32BE(1, 0)
  buffer.writeInt32BE(nulls ? 1 : 0, 4)
  buffer.writeInt32BE(elementType, 8)
  buffer.writeInt32BE(length, 12)
  buffer.writeInt32BE(1, 16)
  return buffer
}

/**
 * Arrays as binary parameters: neither side quotes or parses a text, which is most of the cost of a large batch
 * (docs/decisions/0002-postgres-log.md). `pg` sends a Buffer in binary format as it is.
 */
export const textArray = (values: readonly (string | null)[]): Buffer => {
  let bytes = 0
  let nulls = false
  const sizes = values.map((value) => {
    const size = value === null ? -1 : Buffer.byteLength(value)
    if (size === -1) nulls = true
    bytes += 4 + Math.max(size, 0)
    return size
  })
  const buffer = withHeader(oids.text, values.length, bytes, nulls)
  let offset = headerBytes
  for (const [index, value] of values.entries()) {
    const size = sizes[index]!
    buffer.writeInt32BE(size, offset)
    if (value === null) {
      offset += 4
      continue
    }
    buffer.write(value, offset + 4, size, 'utf8')
    offset += 4 + size
  }
  return buffer
}

export const uuidArray = (values: readonly string[]): Buffer => {
  const buffer = withHeader(oids.uuid, values.length, 20 * values.length)
  let offset = headerBytes
  for (const value of values) {
    buffer.writeInt32BE(16, offset)
    buffer.write(value.replaceAll('-', ''), offset + 4, 16, 'hex')
    offset += 20
  }
  return buffer
}

export const int4Array = (values: readonly number[]): Buffer => {
  const buffer = withHeader(oids.int4, values.length, 8 * values.length)
  let offset = headerBytes
  for (const value of values) {
    buffer.writeInt32BE(4, offset)
    buffer.writeInt32BE(value, offset + 4)
    offset += 8
  }
  return buffer
}

/** Safe integers. */
export const int8Array = (values: readonly number[]): Buffer => {
  const buffer = withHeader(oids.int8, values.length, 12 * values.length)
  let offset = headerBytes
  for (const value of values) {
    buffer.writeInt32BE(8, offset)
    buffer.writeInt32BE(Math.floor(value / 0x1_0000_0000), offset + 4)
    buffer.writeUInt32BE(value >>> 0, offset + 8)
    offset += 12
  }
  return buffer
}

const postgresEpochMs = Date.UTC(2000, 0, 1)

/** ISO 8601 instants with at most milliseconds. */
export const timestamptzArray = (values: readonly string[]): Buffer => {
  const buffer = withHeader(oids.timestamptz, values.length, 12 * values.length)
  let offset = headerBytes
  for (const value of values) {
    const micros = (Date.parse(value) - postgresEpochMs) * 1000
    if (!Number.isSafeInteger(micros)) throw new RangeError(`${value} is no instant`)
    buffer.writeInt32BE(8, offset)
    buffer.writeInt32BE(Math.floor(micros / 0x1_0000_0000), offset + 4)
    buffer.writeUInt32BE(micros >>> 0, offset + 8)
    offset += 12
  }
  return buffer
}

export const booleanArray = (values: readonly boolean[]): Buffer => {
  const buffer = withHeader(oids.boolean, values.length, 5 * values.length)
  let offset = headerBytes
  for (const value of values) {
    buffer.writeInt32BE(1, offset)
    buffer.writeUInt8(value ? 1 : 0, offset + 4)
    offset += 5
  }
  return buffer
}
