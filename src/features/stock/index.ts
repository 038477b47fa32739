export { addAddresses, type Stocking } from './add-stock.ts'
export { poolsAfter } from './stock-counts.ts'
export { createStockLogins, placeOfEndpoint, type StockLogins } from './stock-logins.ts'
