import { command } from '../../platform/cli/command.ts'
import { option, wholeNumber } from '../../platform/cli/input.ts'

const runs = () => import('./run-commands.ts')

export const addInput = {
  product: option('<id>', 'the dedicated product of addresses that do not name one'),
  country: option('<alpha3>', 'the country of addresses that do not name one, e.g. USA'),
  file: option(
    '<path>',
    'one address a line, or JSON, one object a line or an array of them: {ip, product, country, city, asn, asnOrg, carrierId, service, endpoint: {protocol, host, port, username, password, udp}}',
  ),
  addresses: option('<list>', 'addresses with commas between'),
  city: option('<name>', 'for addresses that do not name one'),
  asn: option('<n>', 'for addresses that do not name one', wholeNumber(1, 4_294_967_295)),
  asnOrg: option('<name>', 'for addresses that do not name one'),
  carrier: option('<id>', 'mobile: for addresses that do not name one'),
  service: option('<kind>', 'mobile: dedicated or shared, for addresses that do not name it'),
}

export const commands = [
  command({
    name: 'stock add',
    about: 'add addresses to the stock; each address is in stock once, across all products',
    input: addInput,
    details: `An address with an endpoint is a supplier's: its renters reach it at the gateway by their username, and its traffic
goes out through that proxy. If it is added again with another endpoint or login, it uses the new one, even while it is
rented.

A line of a file:
  {"product": "isp-static", "country": "USA", "ip": "203.0.113.7", "endpoint": {"protocol": "socks5", "host": "gw.acme.example", "port": 1080, "username": "u", "password": "p"}}`,
    run: async () => (await runs()).add,
  }),
  command({
    name: 'stock list',
    about: 'count the addresses in stock, as the log has them now',
    input: {
      product: option('<id>', 'only this product'),
      country: option('<alpha3>', 'only this country'),
    },
    columns: {
      product: 'productId',
      country: 'country',
      carrier: 'carrierId',
      service: 'service',
      total: 'total',
      available: 'available',
      rented: 'rented',
      resting: 'resting',
    },
    empty: 'no addresses',
    run: async () => (await runs()).list,
  }),
]
