import type { Context } from '../context.ts'
import { addressIn } from '../dial/prefix.ts'
import { directWay } from './udp-direct.ts'
import { socksWay } from './udp-socks.ts'
import type { UdpWay, WayRequest } from './udp-way.ts'

/** @throws when the exit does not relay UDP */
export const openUdpWay = async (context: Context, request: WayRequest): Promise<UdpWay> => {
  const { via, sandbox } = request.exit
  switch (via.kind) {
    case 'direct':
      return directWay(context, via.localAddress, sandbox, request.arrived)
    case 'prefix':
      return directWay(context, addressIn(via.prefix, request.session), sandbox, request.arrived)
    case 'socks5':
      return socksWay(context, via, request)
    case 'http':
    case 'https':
      throw new Error('an HTTP proxy relays no UDP')
    default:
      return via satisfies never
  }
}
