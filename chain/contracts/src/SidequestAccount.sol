// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.28;

import {IERC1271} from "@openzeppelin/contracts/interfaces/IERC1271.sol";
import {ERC721Holder} from "@openzeppelin/contracts/token/ERC721/utils/ERC721Holder.sol";
import {ERC1155Holder} from "@openzeppelin/contracts/token/ERC1155/utils/ERC1155Holder.sol";
import {Address} from "@openzeppelin/contracts/utils/Address.sol";
import {BitMaps} from "@openzeppelin/contracts/utils/structs/BitMaps.sol";
import {ECDSA} from "@openzeppelin/contracts/utils/cryptography/ECDSA.sol";
import {EIP712} from "@openzeppelin/contracts/utils/cryptography/EIP712.sol";

/// @title The code that a wallet lends by EIP-7702 in order to batch calls and have others pay the gas.
/// @notice The account stays that of its key: nothing is set up, so nothing can be set up by somebody else first, and a
/// plain signature of the key is good wherever code is asked for one (ERC-1271).
contract SidequestAccount is IERC1271, EIP712, ERC721Holder, ERC1155Holder {
    using BitMaps for BitMaps.BitMap;

    struct Call {
        address target;
        uint256 value;
        bytes data;
    }

    /// @custom:storage-location erc7201:sidequest.account
    struct Used {
        BitMaps.BitMap nonces;
    }

    bytes32 private constant CALL_TYPEHASH = keccak256("Call(address target,uint256 value,bytes data)");
    bytes32 private constant BATCH_TYPEHASH =
        keccak256("Batch(Call[] calls,uint256 nonce,uint256 deadline)Call(address target,uint256 value,bytes data)");

    // A place of its own: the storage is the wallet's and may hold what other code left there.
    bytes32 private constant USED_SLOT =
        keccak256(abi.encode(uint256(keccak256("sidequest.account")) - 1)) & ~bytes32(uint256(0xff));

    event NonceUsed(uint256 nonce);

    error NotSelf(address caller);
    error TooLate(uint256 deadline);
    error NonceReused(uint256 nonce);
    error BadSignature();

    constructor() EIP712("SidequestAccount", "1") {}

    receive() external payable {}

    /// @inheritdoc IERC1271
    function isValidSignature(bytes32 hash, bytes calldata signature) external view returns (bytes4) {
        return _signed(hash, signature) ? IERC1271.isValidSignature.selector : bytes4(0xffffffff);
    }

    /// @notice Makes the calls in order, all or none. Only the wallet itself may ask.
    function execute(Call[] calldata calls) external payable {
        if (msg.sender != address(this)) revert NotSelf(msg.sender);
        _execute(calls);
    }

    /// @notice The same for anyone who brings the signature of the wallet's key.
    /// @param nonce any number that was not used; they need no order
    /// @param deadline the second from which on it is too late
    function executeSigned(Call[] calldata calls, uint256 nonce, uint256 deadline, bytes calldata signature)
        external
        payable
    {
        if (block.timestamp >= deadline) revert TooLate(deadline);
        _useNonce(nonce);
        bytes32 batch = keccak256(abi.encode(BATCH_TYPEHASH, _hash(calls), nonce, deadline));
        if (!_signed(_hashTypedDataV4(batch), signature)) revert BadSignature();
        _execute(calls);
    }

    /// @notice Makes a signed batch useless before its deadline.
    function cancelNonce(uint256 nonce) external {
        if (msg.sender != address(this)) revert NotSelf(msg.sender);
        _useNonce(nonce);
    }

    function nonceUsed(uint256 nonce) external view returns (bool) {
        return _used().nonces.get(nonce);
    }

    function _useNonce(uint256 nonce) private {
        if (_used().nonces.get(nonce)) revert NonceReused(nonce);
        _used().nonces.set(nonce);
        emit NonceUsed(nonce);
    }

    function _execute(Call[] calldata calls) private {
        for (uint256 i = 0; i < calls.length; i++) {
            (bool ok, bytes memory answer) = calls[i].target.call{value: calls[i].value}(calls[i].data);
            Address.verifyCallResult(ok, answer);
        }
    }

    function _hash(Call[] calldata calls) private pure returns (bytes32) {
        bytes32[] memory hashes = new bytes32[](calls.length);
        for (uint256 i = 0; i < calls.length; i++) {
            Call calldata c = calls[i];
            hashes[i] = keccak256(abi.encode(CALL_TYPEHASH, c.target, c.value, keccak256(c.data)));
        }
        return keccak256(abi.encodePacked(hashes));
    }

    function _signed(bytes32 digest, bytes calldata signature) private view returns (bool) {
        (address recovered, ECDSA.RecoverError fault,) = ECDSA.tryRecoverCalldata(digest, signature);
        return fault == ECDSA.RecoverError.NoError && recovered == address(this);
    }

    function _used() private pure returns (Used storage used) {
        bytes32 slot = USED_SLOT;
        assembly ("memory-safe") {
            used.slot := slot
        }
    }
}
