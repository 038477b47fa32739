import { connect } from 'node:net'
import { type Race, raceTo } from '../../platform/outgoing/race.ts'
import { type BufferedSocket, dialBufferedSocket } from '../accept/buffered-socket.ts'
import type { OnFault } from '../refusals.ts'

/**
 * Opens a socket to the first address that answers. With `localAddress` null the system chooses the local address.
 * @throws as `raceTo`
 */
export const raceToSocket = ({
  port,
  localAddress,
  onFault,
  ...race
}: Omit<Race<BufferedSocket>, 'dial'> & {
  readonly port: number
  readonly localAddress: string | null
  readonly onFault: OnFault
}): Promise<BufferedSocket> =>
  raceTo({
    ...race,
    dial: (host) =>
      dialBufferedSocket(
        (onread) =>
          connect({
            host,
            port,
            allowHalfOpen: true,
            noDelay: true,
            onread,
            autoSelectFamily: false,
            ...(localAddress === null ? {} : { localAddress }),
          }),
        onFault,
      ),
  })
