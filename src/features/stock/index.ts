export { addAddresses, type Stocking } from './add-stock.ts'
export { createStockLogins, placeOfEndpoint, type StockLogins } from './stock-logins.ts'
